#include "kernels/cuda/delta.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/segments.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kConvThreads = 128;

// Channels that a block takes: a head that is to be normalised, or some of the values.
struct ChannelGroup {
  int64_t begin, end;
  float scale;  // of a head; 0: no head
};
__device__ ChannelGroup channel_group(const ConvArgs& a, int64_t group) {
  const int64_t heads = 2 * a.n_key_heads;
  if (group < heads) {
    const float scale = group < a.n_key_heads ? 1.0f / sqrtf(static_cast<float>(a.key_dim)) : 1.0f;
    return {group * a.key_dim, (group + 1) * a.key_dim, scale};
  }
  const int64_t begin = heads * a.key_dim + (group - heads) * kConvThreads;
  return {begin, begin + kConvThreads < a.channels ? begin + kConvThreads : a.channels, 0};
}
int64_t channel_groups(const ConvArgs& a) {
  const int64_t heads = 2 * int64_t{a.n_key_heads};
  return heads + (a.channels - heads * a.key_dim + kConvThreads - 1) / kConvThreads;
}

// Input of a channel `back` rows before row r of the segment, which may lie in the state of earlier steps.
__device__ __forceinline__ float conv_input(const ConvArgs& a, const Segment& s, int64_t r, int back, int64_t channel) {
  const int64_t at = r - back;
  if (at >= 0) return a.x[(s.first + at) * a.x_stride + channel];
  const int past = a.kernel - 1;
  return a.state[s.slot * a.state_stride + channel * past + past + at];
}

__device__ float conv_block_sum(float x) {
  __shared__ float warps[kConvThreads / kWarp];
  x = warp_sum(x);
  __syncthreads();  // the sum before has been read
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warps[0] + warps[1] + warps[2] + warps[3];
}

// Output of row r of the segment in the block's channels.
__device__ void conv_row(const ConvArgs& a, const Segment& s, const ChannelGroup& group, int64_t r) {
  float* y = a.y + (s.first + r) * a.y_stride;
  float squares = 0;
  for (int64_t c = group.begin + threadIdx.x; c < group.end; c += kConvThreads) {
    float total = 0;
    for (int j = 0; j < a.kernel; j++) {
      total = fmaf(a.taps[c * a.kernel + j], conv_input(a, s, r, a.kernel - 1 - j, c), total);
    }
    const float value = silu(total);
    squares = fmaf(value, value, squares);
    y[c] = value;
  }
  if (group.scale == 0) return;
  const float factor = group.scale / sqrtf(conv_block_sum(squares) + a.eps);
  for (int64_t c = group.begin + threadIdx.x; c < group.end; c += kConvThreads) y[c] *= factor;
}

// The last inputs of the segment become the state. A channel's thread reads what it overwrites in order of age, so that
// nothing is read after it was written.
__device__ void conv_advance(const ConvArgs& a, const Segment& s, const ChannelGroup& group) {
  const int past = a.kernel - 1;
  for (int64_t c = group.begin + threadIdx.x; c < group.end; c += kConvThreads) {
    float* state = a.state + s.slot * a.state_stride + c * past;
    for (int j = 0; j < past; j++) state[j] = conv_input(a, s, s.rows - 1, past - 1 - j, c);
  }
}

// Rows of a long segment beside each other: their inputs are all there, and the state is advanced by the next kernel.
__global__ void conv_rows(const __grid_constant__ ConvArgs a, const __grid_constant__ Segments map) {
  const int64_t row = blockIdx.x;
  const Segment s = segment_of(map, row);
  if (s.rows > 0) conv_row(a, s, channel_group(a, blockIdx.y), row - s.first);
}
__global__ void conv_states(const __grid_constant__ ConvArgs a, const __grid_constant__ Segments map) {
  if (blockIdx.x >= *map.count) return;
  const Segment s = segment(map, blockIdx.x);
  if (s.rows > 0) conv_advance(a, s, channel_group(a, blockIdx.y));
}
// Short segments row by row, in one launch.
__global__ void conv_segments(const __grid_constant__ ConvArgs a, const __grid_constant__ Segments map) {
  if (blockIdx.x >= *map.count) return;
  const Segment s = segment(map, blockIdx.x);
  const ChannelGroup group = channel_group(a, blockIdx.y);
  for (int64_t r = 0; r < s.rows; r++) conv_row(a, s, group, r);
  if (s.rows > 0) conv_advance(a, s, group);
}

__global__ void gates(GatesArgs a, LiveRows rows) {
  start_kernel_behind();
  const int64_t row = blockIdx.x;
  if (row >= *rows.live) return;
  const float* ba = a.ba + row * a.ba_stride;
  float* g_beta = a.g_beta + row * a.g_beta_stride;
  const int per_key = a.n_heads / a.n_key_heads;
  for (int h = threadIdx.x; h < a.n_heads; h += blockDim.x) {
    const int b_at = a.grouped ? h / per_key * 2 * per_key + h % per_key : h;
    const int a_at = a.grouped ? b_at + per_key : a.n_heads + h;
    const float x = ba[a_at] + a.dt_bias[h];
    const float softplus = x > 20.0f ? x : log1pf(expf(x));
    g_beta[h] = softplus * a.decay[h];
    g_beta[a.n_heads + h] = sigmoid(ba[b_at]);
  }
}

constexpr int kDeltaWarps = 4;

// What a head's rows of the state meet at one token.
struct Token {
  const float* q;
  const float* k;
  const float* v;
  const float* gates;  // of the row: all heads' log decays, then all betas
};
__device__ __forceinline__ Token token_of(const DeltaRuleArgs& a, int64_t row, int head) {
  const int key_head = a.tiled ? head % a.n_key_heads : head / (a.n_heads / a.n_key_heads);
  const float* qkv = a.qkv + row * a.qkv_stride;
  return {qkv + int64_t{key_head} * a.dk, qkv + int64_t{a.n_key_heads + key_head} * a.dk,
          qkv + 2 * int64_t{a.n_key_heads} * a.dk + int64_t{head} * a.dv, a.g_beta + row * a.g_beta_stride};
}

// Rows of a head's state (value indices) are shared by eight lanes each, four rows to a warp.
constexpr int kRowLanes = 8;
constexpr int kRowsOfWarp = kWarp / kRowLanes;
constexpr int kRowsOfBlock = kDeltaWarps * kRowsOfWarp;

__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
  for (int step = kRowLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// A lane's part of what a token brings, in registers: element i of the lane is i * kRowLanes + lane of the head.
template <int kPer>
struct TokenPart {
  float q[kPer], k[kPer];
  float v, log_decay, beta;
};
template <int kPer>
__device__ __forceinline__ TokenPart<kPer> load_token(const DeltaRuleArgs& a, int64_t row, int head, int j, int lane) {
  const Token token = token_of(a, row, head);
  TokenPart<kPer> part;
#pragma unroll
  for (int i = 0; i < kPer; i++) {
    const int at = lane + i * kRowLanes;
    part.q[i] = at < a.dk ? __ldg(token.q + at) : 0;
    part.k[i] = at < a.dk ? __ldg(token.k + at) : 0;
  }
  part.v = __ldg(token.v + j);
  part.log_decay = __ldg(token.gates + head);
  part.beta = __ldg(token.gates + a.n_heads + head);
  return part;
}

// Tokens that are asked for ahead of their loads.
constexpr int kTokensAhead = 8;

// Asks for the query, the key and the values of a token; the lanes of a row share its cache lines.
__device__ __forceinline__ void prefetch_token(const DeltaRuleArgs& a, int64_t row, int head, int lane) {
  constexpr int kLine = 32;  // floats
  const Token token = token_of(a, row, head);
  for (int i = lane * kLine; i < a.dk; i += kRowLanes * kLine) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(token.q + i));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(token.k + i));
  }
  if (lane * kLine < a.dv) asm volatile("prefetch.global.L2 [%0];" ::"l"(token.v + lane * kLine));
}

// A row stays in registers through all tokens of the segment, kPer elements to a lane, so the recurrence costs one read
// and one write of the state however long the segment is.
template <int kPer>
__global__ void __launch_bounds__(kDeltaWarps * kWarp)
    delta_rule(const __grid_constant__ DeltaRuleArgs a, const __grid_constant__ Segments map) {
  const int lane = threadIdx.x % kRowLanes;
  const int wanted = static_cast<int>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kRowLanes;
  const bool valid = wanted < a.dv;
  const int j = valid ? wanted : a.dv - 1;  // lanes without a row go along with the last one
  const int head = blockIdx.y;
  if (blockIdx.z >= *map.count) return;
  const Segment s = segment(map, blockIdx.z);
  if (s.rows == 0) return;
  float* memory = a.state + s.slot * a.state_stride + (int64_t{head} * a.dv + j) * a.dk;
  float state[kPer];
#pragma unroll
  for (int i = 0; i < kPer; i++) state[i] = lane + i * kRowLanes < a.dk ? memory[lane + i * kRowLanes] : 0;
  const int64_t end = s.first + s.rows;
  TokenPart<kPer> next = load_token<kPer>(a, s.first, head, j, lane);
  for (int64_t row = s.first; row < end; row++) {
    const TokenPart<kPer> token = next;
    if (row + kTokensAhead < end) prefetch_token(a, row + kTokensAhead, head, lane);
    if (row + 1 < end) next = load_token<kPer>(a, row + 1, head, j, lane);  // on its way while this one is computed
    const float decay = expf(token.log_decay);
    float met = 0;
#pragma unroll
    for (int i = 0; i < kPer; i++) met = fmaf(state[i], token.k[i], met);
    const float error = token.beta * (token.v - decay * row_sum(met));
    float answer = 0;
#pragma unroll
    for (int i = 0; i < kPer; i++) {
      state[i] = fmaf(error, token.k[i], decay * state[i]);
      answer = fmaf(state[i], token.q[i], answer);
    }
    answer = row_sum(answer);
    if (lane == 0 && valid) a.y[row * a.y_stride + int64_t{head} * a.dv + j] = answer;
  }
#pragma unroll
  for (int i = 0; i < kPer; i++) {
    if (valid && lane + i * kRowLanes < a.dk) memory[lane + i * kRowLanes] = state[i];
  }
}

// The same for heads that are too wide for registers: the row stays in memory.
__global__ void delta_rule_wide(const __grid_constant__ DeltaRuleArgs a, const __grid_constant__ Segments map) {
  const int lane = threadIdx.x % kWarp;
  const int j = static_cast<int>(blockIdx.x) * kDeltaWarps + threadIdx.x / kWarp;
  const int head = blockIdx.y;
  if (blockIdx.z >= *map.count || j >= a.dv) return;
  const Segment s = segment(map, blockIdx.z);
  float* state = a.state + s.slot * a.state_stride + (int64_t{head} * a.dv + j) * a.dk;
  for (int64_t row = s.first; row < s.first + s.rows; row++) {
    const Token token = token_of(a, row, head);
    const float decay = expf(token.gates[head]), beta = token.gates[a.n_heads + head];
    float met = 0;
    for (int i = lane; i < a.dk; i += kWarp) met = fmaf(state[i], token.k[i], met);
    const float error = beta * (token.v[j] - decay * warp_sum(met));
    float answer = 0;
    for (int i = lane; i < a.dk; i += kWarp) {
      state[i] = fmaf(error, token.k[i], decay * state[i]);
      answer = fmaf(state[i], token.q[i], answer);
    }
    answer = warp_sum(answer);
    if (lane == 0) a.y[row * a.y_stride + int64_t{head} * a.dv + j] = answer;
  }
}

}  // namespace

void launch_conv(const ConvArgs& args, const Segments& segments, cudaStream_t stream) {
  if (args.rows == 0 || segments.max_segments == 0) return;
  const auto groups = static_cast<unsigned>(channel_groups(args));
  const auto n_segments = static_cast<unsigned>(std::min(segments.max_segments, args.rows));
  constexpr int64_t kFewRows = 16;
  if (args.rows <= kFewRows) {
    conv_segments<<<dim3(n_segments, groups), kConvThreads, 0, stream>>>(args, segments);
    return;
  }
  conv_rows<<<dim3(static_cast<unsigned>(args.rows), groups), kConvThreads, 0, stream>>>(args, segments);
  conv_states<<<dim3(n_segments, groups), kConvThreads, 0, stream>>>(args, segments);
}

void launch_gates(const GatesArgs& args, const LiveRows& rows, cudaStream_t stream) {
  if (rows.rows > 0) gates<<<static_cast<unsigned>(rows.rows), 64, 0, stream>>>(args, rows);
}

void launch_delta_rule(const DeltaRuleArgs& args, const Segments& segments, cudaStream_t stream) {
  if (segments.max_segments == 0) return;
  constexpr int kThreads = kDeltaWarps * kWarp;
  const auto grid = [&](int rows_of_block) {
    return dim3(static_cast<unsigned>((args.dv + rows_of_block - 1) / rows_of_block),
                static_cast<unsigned>(args.n_heads), static_cast<unsigned>(segments.max_segments));
  };
  if (args.dk <= 8 * kRowLanes) {
    delta_rule<8><<<grid(kRowsOfBlock), kThreads, 0, stream>>>(args, segments);
  } else if (args.dk <= 16 * kRowLanes) {
    delta_rule<16><<<grid(kRowsOfBlock), kThreads, 0, stream>>>(args, segments);
  } else if (args.dk <= 32 * kRowLanes) {
    delta_rule<32><<<grid(kRowsOfBlock), kThreads, 0, stream>>>(args, segments);
  } else {
    delta_rule_wide<<<grid(kDeltaWarps), kThreads, 0, stream>>>(args, segments);
  }
}

}  // namespace strata::kernels::cuda
