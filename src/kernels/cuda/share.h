// Which experts of a layer a device computes and which its host, and what the host is told of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows.h"

namespace strata::kernels::cuda {

// As device::ShareExperts says. What is told lies in page-locked memory of the host.
struct ShareArgs {
  const int32_t* ids;  // [rows][k]
  int64_t ids_stride;
  int k;
  const float* x;  // [rows][cols]
  int64_t x_stride;
  int64_t cols;
  int n_experts;
  const int32_t* slot_of;  // [n_experts] or null
  const int64_t* linked;   // [n_experts] or null
  const int32_t* share;    // [n_experts + 1] or null
  int32_t* place_of;       // [n_experts]
  int32_t* told_live;
  int32_t* told_ids;
  int64_t told_ids_stride;
  int32_t* told_places;
  float* told_x;
  int64_t told_x_stride;
};
// n_experts at most kMaxRouted (route.h).
void launch_share(const ShareArgs& args, const LiveRows& rows, cudaStream_t stream);

// As device::FetchExperts says; all addresses and sizes are multiples of 16.
struct FetchArgs {
  const int32_t* place_of;   // [n_experts]
  const int64_t* linked_at;  // [n_experts]
  int n_experts;
  int64_t blob_bytes;
  uint8_t* stage;  // [n_places]
  int64_t stage_stride;
  int n_places;
  int64_t* staged_at;  // [n_experts]
};
// n_experts at most kMaxRouted (route.h).
void launch_fetch(const FetchArgs& args, int n_sms, cudaStream_t stream);

}  // namespace strata::kernels::cuda
