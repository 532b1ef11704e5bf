// Hashed n-gram features: which rows of a large table a token reads, and what a file says about them. The layer that
// uses them is blocks/ngram.h, the reading of the rows table.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace strata::model {

class Keys;
struct HParams;

// n-grams of 2 to `size` tokens are hashed by `heads_per_order` heads each, and every head has rows of its own:
//   mix_n = ids[t] * multipliers[0] xor ids[t-1] * multipliers[1] xor ... ids[t-n+1] * multipliers[n-1]  (mod 2^64)
//   row of head (n-2) * heads_per_order + g = mix_n mod head_rows[head] + head_offsets[head]
struct NgramParams {
  int layer = -1;  // that uses the rows; -1: the model has none
  int size = 0;    // of the longest n-gram, in tokens; also the distance of the convolution's taps
  int heads_per_order = 0;
  int kernel = 0;  // taps of the convolution
  int64_t row_dim = 0;  // values of a row
  int64_t channels = 0;   // of the convolution: the residual's, all streams of it
  int32_t separator = 0;  // id that no n-gram reaches across; stands for what lies before it and before the start
  std::vector<uint64_t> multipliers = {};   // [size]
  std::vector<uint64_t> head_rows = {};     // [n_heads], > 0
  std::vector<uint64_t> head_offsets = {};  // [n_heads]

  int n_heads() const { return static_cast<int>(head_rows.size()); }
  // Values of a token's rows together.
  int64_t width() const { return n_heads() * row_dim; }
  // Tokens before a token that its convolution reaches back to, and what is kept of a sequence for it.
  int history() const { return size * (kernel - 1); }
  int64_t state() const { return history() * channels; }
  // Rows that the table needs.
  uint64_t table_rows() const;
};

inline constexpr const char* kNgramTable = "per_layer_token_embd.weight";

// hp: number of layers, hidden_width(), vocabulary and recurrent layers. Constants that the file lacks are derived as
// the released model's were. kBadInput names file and key for counts that are 0, contradictory or above the table's.
Result<NgramParams> read_ngram(const Keys& keys, const HParams& hp);

// The constants of the released model, given its number of tokens: odd multipliers, and heads of the first primes from
// 20,000,000 on.
std::vector<uint64_t> derive_multipliers(int size, int64_t n_vocab);
std::vector<uint64_t> derive_head_rows(int n_heads);

// Rows for the last of `ids`, which are those of a sequence from its start (at least the last `size` of it).
// rows: [n_heads].
void ngram_rows(const NgramParams& params, std::span<const int32_t> ids, std::span<int64_t> rows);

}  // namespace strata::model
