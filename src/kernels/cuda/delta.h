// The recurrent mixers on a CUDA device: causal depthwise convolution, gates, gated delta rule. Formulas are those of
// kernels.h and device/ops/delta_net.h. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows.h"
#include "kernels/cuda/segments.h"

namespace strata::kernels::cuda {

struct ConvArgs {
  const float* x;  // [rows][channels]
  int64_t x_stride;
  const float* taps;  // [channels][kernel]
  float* state;       // [slots][channels * (kernel - 1)]
  int64_t state_stride;
  float* y;  // [rows][channels]
  int64_t y_stride;
  int64_t rows;  // of the bucket
  int64_t channels;
  int kernel;
  // The first 2 * n_key_heads * key_dim channels are heads that are divided by their norm, of which the first
  // n_key_heads are queries, scaled by 1 / sqrt(key_dim).
  int n_key_heads;
  int key_dim;
  float eps;
};
void launch_conv(const ConvArgs& args, const Segments& segments, cudaStream_t stream);

struct GatesArgs {
  const float* ba;  // [rows][2 * n_heads]
  int64_t ba_stride;
  const float* dt_bias;  // [n_heads]
  const float* decay;    // [n_heads]
  float* g_beta;         // [rows][2 * n_heads]
  int64_t g_beta_stride;
  int n_heads;
  int n_key_heads;
  bool grouped;
};
void launch_gates(const GatesArgs& args, const LiveRows& rows, cudaStream_t stream);

struct DeltaRuleArgs {
  const float* qkv;  // [rows][2 * n_key_heads * dk + n_heads * dv]
  int64_t qkv_stride;
  const float* g_beta;  // [rows][2 * n_heads]
  int64_t g_beta_stride;
  float* state;  // [slots][n_heads][dv][dk]
  int64_t state_stride;
  float* y;  // [rows][n_heads * dv]
  int64_t y_stride;
  int n_heads;
  int n_key_heads;
  int dk;
  int dv;
  bool tiled;  // head h uses key head h % n_key_heads
};
void launch_delta_rule(const DeltaRuleArgs& args, const Segments& segments, cudaStream_t stream);

}  // namespace strata::kernels::cuda
