// Rope, the append to the paged KV cache and attention over it, on a CUDA device. Formulas are those of kernels.h and
// device/ops/attention.h. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/rows.h"
#include "kernels/kv_type.h"

namespace strata::kernels::cuda {

// A layer's cache: blocks of block_tokens tokens; a token holds n_kv_heads x dim elements.
struct KvCache {
  uint8_t* k;
  uint8_t* v;
  KvType type;
  int block_tokens;
  int n_kv_heads;
  int key_dim;
  int value_dim;
  size_t k_token_bytes;
  size_t v_token_bytes;
  size_t k_head_bytes;
  size_t v_head_bytes;
};

// Where rows belong.
struct Places {
  const int32_t* positions;    // [rows]
  const int32_t* slots;        // [rows]
  const int32_t* block_table;  // [slots][...]
  int64_t table_stride;
  int64_t max_blocks;  // of a sequence
  // The table has a row for each row of the step, behind the number of whole blocks that it names; a row attends to
  // these and, of one more, to as many tokens as lie in front of its position since a multiple of a block, and itself.
  bool by_row = false;
};

// cos then sin of positions[r] * inv_freq[p], times magnitude; angles are formed in double.
struct AnglesArgs {
  const int32_t* positions;
  const float* inv_freq;  // [n_pairs]
  float* cos_sin;         // [rows][2 * n_pairs]
  int64_t cos_sin_stride;
  int n_pairs;
  float magnitude;
};
void launch_angles(const AnglesArgs& args, const LiveRows& rows, cudaStream_t stream);

// Norm and rope of the heads of q and k in place, then k and v into the cache.
struct AppendArgs {
  float* q;  // head h of a row at h * q_head_stride
  int64_t q_stride;
  int q_head_stride;
  int n_heads;
  float* k;
  int64_t k_stride;
  const float* v;
  int64_t v_stride;
  const float* q_norm;  // [key_dim] or null
  const float* k_norm;
  const float* cos_sin;
  int64_t cos_sin_stride;
  int n_pairs;
  bool interleaved;
  float eps;
  Places places;
  KvCache kv;
};
void launch_append(const AppendArgs& args, const LiveRows& rows, cudaStream_t stream);

struct AttendArgs {
  const float* q;  // head h of a row at h * q_head_stride; its gate follows the query
  int64_t q_stride;
  int q_head_stride;
  int n_heads;
  const float* sinks;  // [n_heads] or null
  bool gated;
  int64_t window;  // 0: all positions up to the row's own
  float scale;
  Places places;
  KvCache kv;
  float* y;  // [rows][n_heads * value_dim]
  int64_t y_stride;
  // Only rows at positions [from, before) attend: of launch_attend_rows() the first, of tiles and mma the second.
  int64_t from = 0;
  int64_t before = INT64_MAX;
};
// Each row by itself, its context cut into spans at fixed positions that are computed beside each other and then joined
// in order: a row's bits do not depend on the rows beside it. workspace: attend_spans_workspace().
void launch_attend_spans(const AttendArgs& args, const LiveRows& rows, void* workspace, cudaStream_t stream);
size_t attend_spans_workspace(const AttendArgs& args, int64_t rows);
// Append and attention of a few rows in one kernel, over a cache of float16: whether it can, and the launch. Queries
// and keys stay as they were before norm and rope; `counts` are zeros before and after. What it appends are the bits of
// launch_append(); sums are formed in another order than by the other kernels. workspace: attend_spans_workspace().
inline constexpr int64_t kMostAppended = 8;
struct Arrivals {
  int32_t* counts;  // [rows][n_heads]
  int64_t stride;
};
bool appends_and_attends(const AttendArgs& args, int n_pairs, const LiveRows& rows);
void launch_append_attend(const AppendArgs& append, const AttendArgs& args, const Arrivals& arrivals,
                          const LiveRows& rows, void* workspace, cudaStream_t stream);
// Tiles of consecutive rows of a sequence share the loads of its keys and values: for prompts. Whether the heads are
// narrow enough for the shared memory of a block.
bool attend_tiles_fit(const AttendArgs& args, size_t max_shared_bytes);
void launch_attend_tiles(const AttendArgs& args, const LiveRows& rows, cudaStream_t stream);
// The same on the tensor cores, for caches of float16: whether the device and the shape are such.
bool attend_mma_fits(const AttendArgs& args, int compute_capability, size_t max_shared_bytes);
void launch_attend_mma(const AttendArgs& args, const LiveRows& rows, cudaStream_t stream);
// Rows one by one on the tensor cores, for caches of float16, without window and sinks: whether the device and the
// shape are such. Few rows are computed in spans. workspace: attend_rows_workspace().
bool attend_rows_fits(const AttendArgs& args, int compute_capability, size_t max_shared_bytes);
size_t attend_rows_workspace(const AttendArgs& args, int64_t rows, int n_sms);
void launch_attend_rows(const AttendArgs& args, const LiveRows& rows, int n_sms, void* workspace, cudaStream_t stream);

}  // namespace strata::kernels::cuda
