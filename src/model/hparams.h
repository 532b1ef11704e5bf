// What a model's metadata says about its shape, checked: every number here is safe as a size or divisor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/ops/delta_net.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "kernels/rope.h"

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

struct HParams {
  std::string arch;
  int n_layers = 0;  // trunk layers
  int64_t dim = 0;
  int n_streams = 1;  // parallel residual streams of dim values each
  int64_t n_vocab = 0;
  int64_t context_length = 0;  // trained context
  float eps = 0;               // of every norm

  int n_heads = 0;
  int n_kv_heads = 0;
  int key_dim = 0;  // of one query or key head
  int value_dim = 0;
  kernels::RopeScaling rope;
  bool rope_interleaved = false;
  std::vector<int64_t> windows;  // [n_layers] sliding window, 0 for full attention
  std::vector<bool> recurrent;   // [n_layers] a delta-net layer instead of attention

  kernels::RouteParams route{};
  int64_t expert_ffn = 0;
  int64_t shared_ffn = 0;  // 0: no shared expert

  device::DeltaShape delta;  // of the recurrent layers

  int64_t hidden_width() const { return n_streams * dim; }
  int64_t q_width(bool gated) const { return int64_t{n_heads} * key_dim * (gated ? 2 : 1); }
  int64_t k_width() const { return int64_t{n_kv_heads} * key_dim; }
  int64_t v_width() const { return int64_t{n_kv_heads} * value_dim; }
};

// The keys of one architecture, and of all models. Errors name file, key, value and what is allowed.
class Keys {
 public:
  explicit Keys(const gguf::Model& model, std::string prefix) : model_(model), prefix_(std::move(prefix) + ".") {}

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
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  // What a Value says of itself or of an element, with file and key before it.
  Error about(std::string_view name, const Error& error) const;

  const gguf::Model& model_;
  std::string prefix_;
};

// The keys that all architectures share: sizes, heads, norms, rope, experts (route.gating, normalize and the recurrent
// part are the architecture's own).
Result<HParams> read_common(const Keys& keys, const std::string& arch);

}  // namespace strata::model
