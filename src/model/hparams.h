// What a model's metadata says about its shape, checked: every number here is safe as a size or divisor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/ops/delta_net.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "model/ngram/ngram.h"
#include "model/rope.h"

namespace strata::model {

// Limits of what is accepted; files beyond them are refused with the key's name.
inline constexpr int64_t kMaxLayers = 512;
inline constexpr int64_t kMaxDim = 1 << 17;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxHeadDim = 1024;
inline constexpr int64_t kMaxExperts = 1024;
inline constexpr int64_t kMaxFfn = 1 << 18;
inline constexpr int64_t kMaxVocab = 1 << 22;
inline constexpr int64_t kMaxContext = 1 << 24;

// Of sparse attention: which tokens a row attends to is chosen by an indexer with query heads and one key head.
struct IndexerParams {
  int n_heads = 0;
  int key_dim = 0;
  int64_t budget = 0;  // tokens in complete blocks that a row attends to at most; a multiple of the block
};

// Attention for which a token keeps a latent and one rotated key, for all heads. key_dim is then all that it keeps,
// value_dim the latent, and there is one KV head.
struct LatentShape {
  int64_t q_rank = 0;     // of the queries' own latent; 0: they are projected at once
  int64_t kv_rank = 0;    // of the latent; 0: the model has no such attention
  int64_t nope_dim = 0;   // values of a query head that are not rotated; rope.n_rot follow them
  int64_t value_dim = 0;  // of a head behind the latent
  double log_multiplier = 0;  // YaRN: of the logarithm of its factor, in the root of what multiplies the scores

  bool used() const { return kv_rank > 0; }
  int64_t head_dim(const kernels::RopeScaling& rope) const { return nope_dim + rope.n_rot; }
  // Of the products of queries and keys: 1 / sqrt(head_dim), and with YaRN the square of what its magnitude would be,
  // (1 + log_multiplier * ln(factor))^2.
  float softmax_scale(const kernels::RopeScaling& rope) const;
};

struct HParams {
  std::string arch;
  int n_layers = 0;  // trunk layers
  int64_t dim = 0;
  int n_streams = 1;  // parallel residual streams of dim values each
  int64_t stream_rank = 0;  // of the gates that mix several streams
  int64_t n_vocab = 0;
  int64_t context_length = 0;  // trained context
  float eps = 0;               // of every norm

  int n_heads = 0;
  int n_kv_heads = 0;
  int key_dim = 0;  // of one query or key head
  int value_dim = 0;
  kernels::RopeScaling rope;
  bool longrope = false;      // a table of factors divides rope's frequencies: rope_factors_short,
  bool long_context = false;  // or rope_factors_long, where sequences may be longer than rope.original_context
  bool rope_interleaved = false;
  float attn_scale = 0;          // of the products of queries and keys
  std::vector<int64_t> windows;  // [n_layers] sliding window, 0 for full attention
  std::vector<bool> recurrent;   // [n_layers] a delta-net layer instead of attention
  std::vector<int> index_blocks;  // [n_layers] see index_block(); empty: all of them attend to all tokens
  IndexerParams indexer;          // where some layer has an index

  std::vector<bool> dense;       // [n_layers] one MLP instead of experts
  int64_t dense_ffn = 0;         // its width, of all dense layers; 0: there are none
  kernels::RouteParams route{};  // n_experts 0: no layer has experts
  int64_t expert_ffn = 0;
  int64_t shared_ffn = 0;  // 0: no shared expert

  device::DeltaShape delta;  // of the recurrent layers
  NgramParams ngram;         // of the layer that reads the n-gram table, if there is one
  LatentShape latent;

  // Tokens that share a key of the layer's index; 0: it has none.
  int index_block(int layer) const { return index_blocks.empty() ? 0 : index_blocks[static_cast<size_t>(layer)]; }
  int64_t hidden_width() const { return n_streams * dim; }
  int n_expert_layers() const { return static_cast<int>(std::count(dense.begin(), dense.end(), false)); }
  int64_t q_width(bool gated) const { return int64_t{n_heads} * key_dim * (gated ? 2 : 1); }
  int64_t k_width() const { return int64_t{n_kv_heads} * key_dim; }
  int64_t v_width() const { return int64_t{n_kv_heads} * value_dim; }
};

// The keys of one architecture, and of all models. Errors name file, key, value and what is allowed.
class Keys {
 public:
  // `rope`: what is wanted other than the file says; null: nothing. Outlives this.
  explicit Keys(const gguf::Model& model, std::string prefix, const RopeOverrides* rope = nullptr)
      : model_(model), prefix_(std::move(prefix) + "."), rope_(rope) {}

  Result<int64_t> require_int(std::string_view name, int64_t min, int64_t max) const;
  Result<int64_t> int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  Result<double> float_or(std::string_view name, double fallback) const;
  Result<float> require_positive(std::string_view name) const;
  Result<bool> bool_or(std::string_view name, bool fallback) const;
  Result<std::string> string_or(std::string_view name, std::string_view fallback) const;
  // A key that may hold one value for all layers or one per layer; here all of them have to be equal.
  Result<int64_t> uniform_int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  // One bool per layer, or an empty vector when the key is absent.
  Result<std::vector<bool>> layer_flags(std::string_view name, int n_layers) const;

  const gguf::Model& model() const { return model_; }
  const RopeOverrides* rope() const { return rope_; }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  // What a Value says of itself or of an element, with file and key before it.
  Error about(std::string_view name, const Error& error) const;

  const gguf::Model& model_;
  std::string prefix_;
  const RopeOverrides* rope_;
};

// What the keys that all architectures share mean in one of them.
struct CommonKeys {
  enum class Experts { kRequired, kOptional, kNone };
  // Whether the layers have experts; without them every layer is dense.
  Experts experts = Experts::kRequired;
  // The width of an expert where expert_feed_forward_length is absent: feed_forward_length, or that shared out to the
  // experts of a row.
  bool experts_as_wide_as_dense = false;
};

// The keys that all architectures share: sizes, heads, norms, rope, experts (route.gating, normalize and the recurrent
// part are the architecture's own).
Result<HParams> read_common(const Keys& keys, const std::string& arch, const CommonKeys& meaning = {});

// expert_gating_func; `usual` where it is absent.
Result<kernels::Gating> read_gating(const Keys& keys, kernels::Gating usual);

// leading_dense_block_count: so many layers before those with experts are dense, feed_forward_length wide.
Status read_leading_dense(const Keys& keys, HParams& hp);

}  // namespace strata::model
