// CPU kernels on plain memory, chosen once per process for an instruction set. Every function states its formula; the
// plain form of each lives in kernels/ref (double accumulation, the oracle of the tests).
//
// Rules for all of them: pointers need no alignment; inputs and outputs don't overlap unless the comment says so;
// float32 in and out; a result never depends on how many rows or tokens are computed in one call. No allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/kv_type.h"
#include "kernels/q8.h"
#include "quant/type.h"

namespace strata::kernels {

// kAvx512Vnni adds integer dot products, byte permutations and bit matrices (VNNI, VBMI, GFNI: Ice Lake, Zen 4), kAmx
// the matrix unit of Sapphire Rapids.
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Vnni, kAmx };
const char* isa_name(Isa isa);

// A matrix of packed GGUF blocks: row r starts at data + r * row_bytes and has `cols` elements.
struct Matrix {
  quant::Type type;
  const uint8_t* data;
  int64_t rows;
  int64_t cols;
  size_t row_bytes;
};

// How router logits become expert weights (specs of MoE models: softmax, sigmoid, softmax over the selected k).
enum class Gating { kSoftmax = 1, kSigmoid = 2, kSoftmaxSelected = 3 };
struct RouteParams {
  int n_experts;
  int n_used;            // k
  Gating gating;
  bool normalize;        // divide the k weights by max(their sum, 6.103515625e-05)
  float scale;           // multiply weights; 0 and 1 leave them
  int n_groups;          // 0 or 1: no groups
  int n_groups_used;
};

// Attention of the query heads that share one KV head, for consecutive tokens of one sequence.
struct AttentionArgs {
  const float* q;              // row r, head h: head_dim values at r * q_row_stride + h * q_stride, not scaled
  int64_t q_row_stride;
  int64_t q_stride;
  int n_rows;                  // tokens
  int n_q;                     // query heads of this KV head
  int head_dim;                // of keys and queries; a multiple of kv_block(type), as value_dim is
  int value_dim;               // of values and outputs
  KvType type;
  const uint8_t* k;            // first byte of the layer's key blocks: [block][block_tokens][k_token_bytes]
  const uint8_t* v;            // the same for values
  size_t k_token_bytes;        // bytes of all KV heads of one token
  size_t v_token_bytes;
  size_t k_head_offset;        // bytes from a token's start to this head's key
  size_t v_head_offset;
  const int32_t* block_table;  // block of positions [i*block_tokens, (i+1)*block_tokens)
  int block_tokens;            // divides kAttentionSpan
  int64_t position;            // of row 0; row r is at position + r
  int64_t window;              // a row at position p sees positions (p - window, p]; 0: all of [0, p]
  float scale;                 // scores are scale * q.k
  const float* sinks;          // one logit per query head that joins the softmax without a value, or null
  float* out;                  // row r, head h: value_dim values at r * out_row_stride + h * out_stride
  int64_t out_row_stride;
  int64_t out_stride;
  float* scratch;              // attention_scratch(n_rows * n_q, head_dim, value_dim, block_tokens) floats
};
// A row's softmax is formed apart for each span of this many positions (from multiples of it on) and then joined, in
// order of the spans: they can be shared out without changing a bit.
inline constexpr int64_t kAttentionSpan = 512;
// Spans that hold a position of [first, last].
inline int64_t attention_spans(int64_t first, int64_t last) {
  return last / kAttentionSpan - first / kAttentionSpan + 1;
}
// A row in whole vectors of any instruction set.
inline int64_t attention_width(int64_t dim) { return (dim + 15) / 16 * 16; }
// Floats of the softmaxes of n queries over one span.
inline int64_t attention_state(int64_t n_queries, int value_dim) {
  return n_queries * (attention_width(value_dim) + 2);
}
inline int64_t attention_scratch(int64_t n_queries, int head_dim, int value_dim, int block_tokens) {
  return n_queries * (attention_width(head_dim) + attention_width(block_tokens) + 1) +
         block_tokens * (attention_width(head_dim) + attention_width(value_dim)) +
         2 * attention_state(n_queries, value_dim);
}

// Inputs of the gated delta rule for one value head over n_tokens consecutive tokens of a sequence.
// Token t: q, k point at t * qk_stride (dk values, normalised and scaled), v at t * v_stride (dv values),
// log-decay g at t * gate_stride (<= 0), beta at t * gate_stride; o at t * o_stride (dv values, written).
struct DeltaArgs {
  const float* q;
  const float* k;
  const float* v;
  const float* g;
  const float* beta;
  float* o;
  int64_t qk_stride, v_stride, gate_stride, o_stride;
  int dk, dv;
  int64_t n_tokens;
  float* state;    // S, [dv][dk]: state[j*dk + i] = S[i][j], key index fastest; read and written
  float* scratch;  // delta_scratch(dk, dv) floats; not used by the step form
};
inline constexpr int kDeltaChunk = 64;
inline int64_t delta_scratch(int dk, int dv) {
  const int64_t l = kDeltaChunk;
  return 2 * l * l + l * (int64_t{dk} + dv) + int64_t{dk} * dv;
}

struct Kernels {
  Isa isa;

  // n elements (a multiple of the type's block) to float32, bit-exact as quant::TypeInfo::decode.
  void (*decode)(quant::Type type, const uint8_t* blocks, float* out, size_t n);

  // y[t*y_stride + r] = sum_c W[r][c] * x[t*x_stride + c] for r in [row_begin, row_end), t in [0, n_tokens).
  // scratch: w.cols floats. The sum of a (row, token) is formed in one fixed order.
  void (*matmul)(const Matrix& w, int64_t row_begin, int64_t row_end, const float* x, int64_t x_stride,
                 int64_t n_tokens, float* y, int64_t y_stride, float* scratch);

  // The fast path: activations rounded to 8 bits, integer products. Formats and layouts are in kernels/q8.h.
  // What integer products with a weight type want their activations rounded to. The same on every instruction set.
  ActFormat (*act_format)(quant::Type weight);
  // Rounds n elements (a multiple of the weight type's block) into a row.
  void (*quantize_row)(ActFormat format, const float* x, int64_t n, uint8_t* row);
  // Whether matmul_q8 takes tiles, which is faster from more than kFewRows tokens on.
  bool has_tiles;
  // Makes a tile of n_rows <= kTileRows rounded rows.
  void (*pack_tile)(ActFormat format, const uint8_t* const* rows, int n_rows, int64_t cols, uint8_t* tile);
  // matmul of a weight type with an act_format. x: n_tokens rounded rows, or as many rows in tiles (the last one may
  // have fewer). scratch: kQ8ScratchBytes. The result of a (row, token) is the same bits for rows and tiles.
  void (*matmul_q8)(const Matrix& w, int64_t row_begin, int64_t row_end, const uint8_t* x, int64_t n_tokens, bool tiles,
                    const Q8Out& out, void* scratch);

  // sum a[i]*b[i]
  float (*dot)(const float* a, const float* b, int64_t n);
  // y[i] += a * x[i]
  void (*axpy)(float a, const float* x, float* y, int64_t n);

  // y[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i]; gain may be null (1); y may be x.
  void (*rms_norm)(const float* x, const float* gain, float* y, int64_t n, float eps);
  // y[i] = x[i] / sqrt(sum(x^2) + eps) * scale; y may be x.
  void (*l2_norm)(const float* x, float* y, int64_t n, float eps, float scale);

  // Rotates the first 2*n_pairs values of x in place by the angles whose cos and sin are given (n_pairs each).
  // interleaved: pairs are (2p, 2p+1); else (p, p + n_pairs).
  void (*rope)(float* x, const float* cos, const float* sin, int n_pairs, bool interleaved);

  // out[i] = silu(gate[i]) * up[i]; out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, float* out, int64_t n);
  // g = min(gate, limit), u = clamp(up, -limit, limit); out = g * sigmoid(alpha*g) * (u + 1); out may be gate or up.
  void (*swiglu_clamped)(const float* gate, const float* up, float* out, int64_t n, float alpha, float limit);
  // x[i] *= sigmoid(gate[i])
  void (*sigmoid_mul)(float* x, const float* gate, int64_t n);
  // x[i] *= silu(gate[i])
  void (*silu_gate)(float* x, const float* gate, int64_t n);

  // Converts n float32 values (a multiple of kv_block(type)) into KV cache elements: f16 and bf16 rounded to nearest
  // even, f16 cut at +-65504; q8_0 as quant's encoder of that type makes them.
  void (*kv_store)(KvType type, const float* x, uint8_t* dst, int64_t n);
  // Softmax attention as in AttentionArgs, over blocks with a running maximum and over spans of kAttentionSpan; both
  // lie at multiples of their length in absolute position, and a row's bits depend on its own visible keys only.
  void (*attention)(const AttentionArgs& args);
  // The same in two steps, for one row (n_rows 1), with the same bits. First each span that holds visible positions, in
  // any order and on any thread, into a state of attention_state(n_q, value_dim) floats; then all of them, `states` in
  // order of the spans, state_stride floats from one to the next.
  void (*attention_span)(const AttentionArgs& args, int64_t span, float* state);
  void (*attention_join)(const AttentionArgs& args, float* states, int64_t state_stride);

  // One token of the causal depthwise convolution over n_channels, kernel K (taps of a channel contiguous, the last one
  // multiplies the current value): y[c] = silu(sum_j w[c*K+j] * column_j[c]). state [n_channels][K-1], oldest first,
  // holds the raw inputs and is advanced by x. y may be x.
  void (*conv_step)(const float* x, const float* w, float* state, float* y, int64_t n_channels, int kernel);

  // The gated delta rule, token by token: S = exp(g) S; e = beta (v - S^T k); S += k e^T; o = S^T q.
  void (*delta_step)(const DeltaArgs& args);
  // The same function in chunks of kDeltaChunk tokens counted from the first one (equal up to rounding).
  void (*delta_chunk)(const DeltaArgs& args);
};

// Whether the machine and its kernel grant the instruction set (CPUID and XGETBV).
bool isa_available(Isa isa);
// kBadInput for an unknown name, kUnsupported when this machine lacks it. "auto" takes the best available.
Result<const Kernels*> select_kernels(const char* name);
// The kernels of an available instruction set.
const Kernels& kernels_for(Isa isa);

// exact, no ISA: from router logits (n_experts) to ids (descending selection score, ties to the lower index) and
// weights. selection_bias (n_experts) is added to the scores for choosing only, or null. probabilities: scratch of
// 2 * n_experts floats. All-NaN logits choose experts 0..k-1; ids are always in range and distinct.
void route(const RouteParams& params, const float* logits, const float* selection_bias, int32_t* ids, float* weights,
           float* scratch);

// cos and sin of position * inv_freq[p], times magnitude; angles are formed in double.
void rope_angles(int64_t position, const float* inv_freq, int n_pairs, float magnitude, float* cos, float* sin);

}  // namespace strata::kernels
