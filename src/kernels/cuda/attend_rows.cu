// Attention of each row by itself over caches of float16, on the tensor cores: for prompts whose rows choose tokens of
// their own, and for heads that all have the same keys. A block has up to kTiles times 16 heads of a KV head and goes
// through the keys that the row sees, 64 at a time. Where there are few rows, blocks share the keys of a row by spans,
// which a second kernel joins.
#include "kernels/cuda/attend_rows.cuh"

#include <algorithm>

#include "kernels/cuda/launch.cuh"

namespace strata::kernels::cuda {
namespace {

using namespace by_rows;

template <int kTiles, int kGroups>
__device__ void attend_row(const AttendArgs& a, const RowWork& w, const Spans& spans, float* states, uint4* memory) {
  using S = Shape<kTiles, kGroups>;
  constexpr float kLog2E = 1.44269504088896f, kLn2 = 0.693147180559945f;
  const RowShared s = shared_of<S>(a, memory);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const bool apart = a.kv.v != a.kv.k;  // values have places of their own
  load_queries<S>(a, w, s);
  RowSoftmax softmax;
  Outputs<kTiles, kGroups> out;
  const auto ask_for_keys = [&](int begin) {
    ask_for_cache(a, w, a.kv.k, a.kv.k_token_bytes, w.kv_head * a.kv.k_head_bytes, a.kv.key_dim, begin, s.keys);
  };
  ask_for_keys(w.begin);
  for (int begin = w.begin; begin < w.n; begin += kKeys) {
    if (apart) {  // the next keys come while these have become weights, their values while they are multiplied
      ask_for_cache(a, w, a.kv.v, a.kv.v_token_bytes, w.kv_head * a.kv.v_head_bytes, a.kv.value_dim, begin,
                    const_cast<__half*>(s.values));
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    score_keys<S>(a, s, warp, lane);
    __syncthreads();
    if (apart) ask_for_keys(begin + kKeys);
    soften<S>(s, a.scale * kLog2E, w.n - begin, softmax);
    if (apart) wait_for_copies<1>();
    __syncthreads();
    add_values(a, s, warp, lane, out);
    __syncthreads();
    if (!apart) ask_for_keys(begin + kKeys);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int step = S::kShare / 2; step > 0; step /= 2) {
    softmax.total += __shfl_xor_sync(kAllLanes, softmax.total, step);
  }
  if (threadIdx.x % S::kShare == 0) {
    const int h = threadIdx.x / S::kShare;
    s.factors[h] = spans.max == 1 ? 1.0f / softmax.total : 1.0f;
    if (spans.max > 1 && h < w.n_heads) {
      const State state = state_of(a, states, spans, w.row, w.first_head + h, blockIdx.z);
      state.maximum[0] = softmax.maximum * kLn2;
      state.maximum[1] = softmax.total;
    }
  }
  __syncthreads();
  store_outputs(a, w, s, warp, lane, out, spans, states);
}

template <int kTiles, int kGroups>
__global__ void __launch_bounds__(kThreads)
    attend_rows(const __grid_constant__ AttendArgs a, LiveRows rows, Spans spans, float* states) {
  extern __shared__ uint4 memory[];
  start_kernel_behind();
  wait_for_kernel_before();
  RowWork w{};
  w.row = gridDim.x - 1 - blockIdx.x;  // later rows see more, so they go first
  if (w.row >= *rows.live || a.places.positions[w.row] < a.from) return;
  constexpr int kHeads = Shape<kTiles, kGroups>::kHeads;
  const RowPlace place = place_of(a.places, a.kv, w.row);
  const int group = a.n_heads / a.kv.n_kv_heads, first = static_cast<int>(blockIdx.y) % spans.head_groups * kHeads;
  const int seen = static_cast<int>(place.position) + 1, span = row_span(seen, spans.max);
  w.slot = place.slot;
  w.begin = static_cast<int>(blockIdx.z) * span;
  w.n = min(seen, w.begin + span);
  if (w.begin >= w.n) return;
  w.kv_head = static_cast<int>(blockIdx.y) / spans.head_groups;
  w.first_head = w.kv_head * group + first;
  w.n_heads = min(group - first, kHeads);
  attend_row<kTiles, kGroups>(a, w, spans, states, memory);
}

// A warp for each head.
__global__ void __launch_bounds__(kThreads)
    join_rows(const __grid_constant__ AttendArgs a, LiveRows rows, Spans spans, float* states) {
  start_kernel_behind();
  wait_for_kernel_before();
  Work w{};
  w.row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y) * kWarps + threadIdx.x / kWarp;
  if (w.row >= *rows.live || head >= a.n_heads || a.places.positions[w.row] < a.from) return;
  const int seen = static_cast<int>(place_of(a.places, a.kv, w.row).position) + 1, span = row_span(seen, spans.max);
  w.n_spans = (seen + span - 1) / span;
  join_head(a, spans, w, head, w.row, states);
}

bool narrow(const AttendArgs& a) {
  return a.n_heads / a.kv.n_kv_heads <= Narrow::kHeads && a.kv.value_dim <= Narrow::kMostValueDim;
}

// As many as fill the device.
Spans row_spans(const AttendArgs& a, int64_t rows, int n_sms) {
  const int heads = narrow(a) ? Narrow::kHeads : Wide::kHeads, of_sm = narrow(a) ? 2 : 1;
  Spans spans{};
  spans.head_groups = (a.n_heads / a.kv.n_kv_heads + heads - 1) / heads;
  const int64_t blocks = rows * a.kv.n_kv_heads * spans.head_groups;
  const int64_t most = (a.places.max_blocks * a.kv.block_tokens + kKeys - 1) / kKeys;
  spans.max = std::clamp(int64_t{of_sm} * n_sms / std::max<int64_t>(blocks, 1), int64_t{1}, most);
  return spans;
}

template <int kTiles, int kGroups>
void launch(const AttendArgs& a, const LiveRows& rows, const Spans& spans, float* states, cudaStream_t stream) {
  const size_t shared = shared_bytes<Shape<kTiles, kGroups>>(a);
  const auto kernel = attend_rows<kTiles, kGroups>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  const dim3 grid(static_cast<unsigned>(rows.rows), static_cast<unsigned>(a.kv.n_kv_heads * spans.head_groups),
                  static_cast<unsigned>(spans.max));
  launch_after(kernel, grid, kThreads, shared, stream, a, rows, spans, states);
}

}  // namespace

bool attend_rows_fits(const AttendArgs& a, int compute_capability, size_t max_shared_bytes) {
  return compute_capability >= 80 && a.kv.type == KvType::kF16 && a.kv.key_dim % 16 == 0 &&
         a.kv.value_dim % 16 == 0 && a.kv.value_dim <= Wide::kMostValueDim && a.window == 0 && a.sinks == nullptr &&
         (narrow(a) ? shared_bytes<Narrow>(a) : shared_bytes<Wide>(a)) <= max_shared_bytes;
}

size_t attend_rows_workspace(const AttendArgs& a, int64_t rows, int n_sms) {
  const Spans spans = row_spans(a, rows, n_sms);
  if (spans.max == 1) return 0;
  return static_cast<size_t>(rows * a.n_heads * spans.max * (a.kv.value_dim + 2)) * sizeof(float);
}

void launch_attend_rows(const AttendArgs& a, const LiveRows& rows, int n_sms, void* workspace, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const Spans spans = row_spans(a, rows.rows, n_sms);
  auto* states = static_cast<float*>(workspace);
  if (narrow(a)) launch<1, 2>(a, rows, spans, states, stream);
  else launch<2, 4>(a, rows, spans, states, stream);
  if (spans.max == 1) return;
  const dim3 heads(static_cast<unsigned>(rows.rows), static_cast<unsigned>((a.n_heads + kWarps - 1) / kWarps));
  launch_after(join_rows, heads, kThreads, 0, stream, a, rows, spans, states);
}

}  // namespace strata::kernels::cuda
