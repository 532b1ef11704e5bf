// What looked-up features add to residuals of several streams, on a CUDA device: formulas are those of
// device/ops/ngram.h. All pointers are device pointers, strides count elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows.h"
#include "kernels/cuda/segments.h"

namespace strata::kernels::cuda {

struct StreamGateArgs {
  const float* x;  // [rows][n_streams * dim]
  int64_t x_stride;
  float* key;  // [rows][n_streams * dim]; becomes the gated values
  int64_t key_stride;
  const float* value;  // [rows][dim]
  int64_t value_stride;
  const float* key_gain;  // [n_streams * dim], as the other gains
  const float* query_gain;
  const float* out_gain;
  float* normed;  // [rows][n_streams * dim]
  int64_t normed_stride;
  int64_t n_streams;
  int64_t dim;
  float eps;
};
void launch_stream_gate(const StreamGateArgs& args, const LiveRows& rows, cudaStream_t stream);

struct DistantConvArgs {
  const float* y;  // [rows][channels]
  int64_t y_stride;
  const float* add;  // [rows][channels]
  int64_t add_stride;
  const float* taps;  // [channels][kernel]
  float* history;     // [slots][depth * channels], the row of position p at p % depth
  int64_t history_stride;
  const int32_t* positions;  // [rows]
  float* x;                  // [rows][channels]
  int64_t x_stride;
  int64_t rows;  // of the bucket
  int64_t channels;
  int kernel;
  int distance;
  int64_t depth;  // distance * (kernel - 1)
};
void launch_distant_conv(const DistantConvArgs& args, const Segments& segments, cudaStream_t stream);

}  // namespace strata::kernels::cuda
