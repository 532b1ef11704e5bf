// The index of sparse attention on a CUDA device: its keys, and the choice of blocks by them. Formulas are those of
// device/ops/sparse_attention.h. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/segments.h"

namespace strata::kernels::cuda {

// Keys of complete blocks: that of the block at token t of the KV cache is row t / block.
struct BlockKeys {
  float* keys;
  int64_t stride;
  int dim;
  int kv_block_tokens;
  int block;
};

struct IndexAppendArgs {
  float* q;  // [rows][n_heads * dim]
  int64_t q_stride;
  int n_heads;
  const float* k;  // [rows][dim]
  int64_t k_stride;
  const float* q_norm;  // [dim]
  const float* k_norm;
  const float* cos_sin;
  int64_t cos_sin_stride;
  const float* inv_freq;  // [n_pairs]
  int n_pairs;
  float magnitude;
  float eps;
  Places places;
  float* tail;  // [slots][(block - 1) * dim]
  int64_t tail_stride;
  BlockKeys index;
  int64_t rows;  // of the bucket
};
void launch_index_append(const IndexAppendArgs& args, const Segments& segments, cudaStream_t stream);

struct SelectArgs {
  const float* q;  // [rows][n_heads * dim]
  int64_t q_stride;
  int n_heads;
  Places places;
  BlockKeys index;
  int32_t* chosen;  // [rows][most + 2]
  int64_t chosen_stride;
  int most;
};
// workspace: select_workspace() bytes.
void launch_select(const SelectArgs& args, const LiveRows& rows, void* workspace, cudaStream_t stream);
size_t select_workspace(const SelectArgs& args, int64_t rows);

}  // namespace strata::kernels::cuda
