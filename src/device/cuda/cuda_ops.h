// Each operation on a CUDA device: run() launches its kernels on the context's stream, workspace_bytes() says what
// scratch they take. Launches are captured into graphs: they allocate nothing, wait for nothing and read no device
// memory on the host. Views and weights hold device pointers. A launch that the runtime refuses is found by the caller,
// which asks for the last error after run().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "device/ops/all.h"

namespace strata::device::cuda {

// What the kernels of an operation run with.
struct OpContext {
  cudaStream_t stream = nullptr;
  int n_sms = 0;
  int compute_capability = 0;   // 75, 90: ten times the major number and the minor one
  size_t max_shared_bytes = 0;  // of a block, when a kernel asks for it
  void* workspace = nullptr;    // on the device; an operation of the same stream may use it before and after
  size_t workspace_bytes = 0;   // at least what workspace_bytes() of the operation says
  bool deterministic = false;   // the same bits whatever rows stand beside a row
};

void run(const Embed& op, const OpContext& context);
void run(const RmsNorm& op, const OpContext& context);
void run(const MatMul& op, const OpContext& context);
void run(const Project& op, const OpContext& context);
void run(const SiluMul& op, const OpContext& context);
void run(const AddGated& op, const OpContext& context);
void run(const GatherRows& op, const OpContext& context);
void run(const RopeAngles& op, const OpContext& context);
void run(const RopeAppend& op, const OpContext& context);
void run(const Attention& op, const OpContext& context);
void run(const AppendAttend& op, const OpContext& context);
void run(const Router& op, const OpContext& context);
void run(const ShareExperts& op, const OpContext& context);
void run(const FetchExperts& op, const OpContext& context);
void run(const ExpertFfn& op, const OpContext& context);
void run(const Combine& op, const OpContext& context);
void run(const DeltaConv& op, const OpContext& context);
void run(const DeltaGates& op, const OpContext& context);
void run(const DeltaNet& op, const OpContext& context);
void run(const GatedNorm& op, const OpContext& context);
void run(const HeadMatMul& op, const OpContext& context);
void run(const LatentAttend& op, const OpContext& context);
void run(const StreamGate& op, const OpContext& context);
void run(const DistantConv& op, const OpContext& context);
void run(const HyperMix& op, const OpContext& context);
void run(const HyperAdd& op, const OpContext& context);
void run(const IndexAppend& op, const OpContext& context);
void run(const SelectBlocks& op, const OpContext& context);
void run(const SparseAttention& op, const OpContext& context);

// For the largest shape that the views allow; workspace and workspace_bytes of the context are not set yet. Operations
// without scratch need no overload: those that have one declare it here.
template <class Op>
size_t workspace_bytes(const Op&, const OpContext&) {
  return 0;
}
size_t workspace_bytes(const MatMul& op, const OpContext& context);
size_t workspace_bytes(const Project& op, const OpContext& context);
size_t workspace_bytes(const Attention& op, const OpContext& context);
size_t workspace_bytes(const AppendAttend& op, const OpContext& context);
size_t workspace_bytes(const Router& op, const OpContext& context);
size_t workspace_bytes(const ExpertFfn& op, const OpContext& context);
size_t workspace_bytes(const LatentAttend& op, const OpContext& context);
size_t workspace_bytes(const HyperMix& op, const OpContext& context);
size_t workspace_bytes(const SelectBlocks& op, const OpContext& context);
size_t workspace_bytes(const SparseAttention& op, const OpContext& context);

// The table of AllOps for launches.
struct OpRow {
  void (*run)(const void* args, const OpContext& context);
  size_t (*workspace_bytes)(const void* args, const OpContext& context);
};
const OpRow& op_row(int op);

}  // namespace strata::device::cuda
