// Each operation on the host: run() computes it on the pool, scratch_floats() says what scratch it takes per thread.
#pragma once

#include "device/host/compute.h"
#include "device/ops/all.h"

namespace strata::device::host {

void run(const Embed& op, Compute& compute);
void run(const RmsNorm& op, Compute& compute);
void run(const MatMul& op, Compute& compute);
void run(const Project& op, Compute& compute);
void run(const SiluMul& op, Compute& compute);
void run(const AddGated& op, Compute& compute);
void run(const GatherRows& op, Compute& compute);
void run(const RopeAngles& op, Compute& compute);
void run(const RopeAppend& op, Compute& compute);
void run(const Attention& op, Compute& compute);
void run(const AppendAttend& op, Compute& compute);
void run(const Router& op, Compute& compute);
void run(const ShareExperts& op, Compute& compute);
void run(const FetchExperts& op, Compute& compute);
void run(const ExpertFfn& op, Compute& compute);
void run(const Combine& op, Compute& compute);
void run(const DeltaConv& op, Compute& compute);
void run(const DeltaGates& op, Compute& compute);
void run(const DeltaNet& op, Compute& compute);
void run(const GatedNorm& op, Compute& compute);
void run(const HyperMix& op, Compute& compute);
void run(const HyperAdd& op, Compute& compute);
void run(const IndexAppend& op, Compute& compute);
void run(const SelectBlocks& op, Compute& compute);
void run(const SparseAttention& op, Compute& compute);
void run(const StreamGate& op, Compute& compute);
void run(const DistantConv& op, Compute& compute);
void run(const HeadMatMul& op, Compute& compute);
void run(const LatentAttend& op, Compute& compute);

// Operations without scratch need no overload.
template <class Op>
int64_t scratch_floats(const Op&) {
  return 0;
}
int64_t scratch_floats(const MatMul& op);
int64_t scratch_floats(const Project& op);
int64_t scratch_floats(const Attention& op);
int64_t scratch_floats(const AppendAttend& op);
int64_t scratch_floats(const Router& op);
int64_t scratch_floats(const ExpertFfn& op);
int64_t scratch_floats(const DeltaNet& op);
int64_t scratch_floats(const HyperMix& op);
int64_t scratch_floats(const IndexAppend& op);
int64_t scratch_floats(const SelectBlocks& op);
int64_t scratch_floats(const SparseAttention& op);
int64_t scratch_floats(const StreamGate& op);
int64_t scratch_floats(const HeadMatMul& op);
int64_t scratch_floats(const LatentAttend& op);

// The table of AllOps for launches.
struct OpRow {
  void (*run)(const void* args, Compute& compute);
  int64_t (*scratch_floats)(const void* args);
  void (*footprint)(const void* args, RangeSink& sink);  // null for operations whose views say it all
};
const OpRow& op_row(int op);

}  // namespace strata::device::host
