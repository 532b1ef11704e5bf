// The rows in which a device computes experts that lie in its own memory.
#pragma once

#include <memory>

#include "experts/dispatch.h"

namespace strata::experts {

// What a step asks of the experts of a layer.
struct LayerRows {
  int32_t layer;
  device::In<int32_t> ids;   // [rows][k]
  device::In<float> x;       // [rows][dim]
  device::In<int32_t> live;  // [1]
  ExpertFormula formula;
  // Where their weighted outputs are added; empty: they go to rows of their own.
  device::In<float> weights = {};  // [rows][k]
  device::InOut<float> sum = {};   // [rows][dim]

  int64_t pairs() const { return ids.rows * ids.cols; }
};

// Memory for the largest step, allocated once. Layers and groups of experts use it one after another, in the order of
// one stream.
class DeviceRows {
 public:
  static Result<std::unique_ptr<DeviceRows>> create(device::Device& device, const ExpertLayout& layout,
                                                    const DispatchLimits& limits);
  static uint64_t bytes_needed(const DispatchLimits& limits);

  // Queues the experts that `slot_of`, [1][n_experts], says are in `slots` or linked: row r * k + j of outputs() for
  // each of their pairs. The rows of other pairs stay as they are. With a sum, they are scratch.
  void enqueue(device::Stream& stream, const LayerRows& rows, const device::ExpertSlots& slots,
               const device::In<int32_t>& slot_of) const;

  device::View<float> outputs(int64_t pairs) const;  // [pairs][dim]

 private:
  DeviceRows(const ExpertLayout& layout, const DispatchLimits& limits) : layout_(layout), limits_(limits) {}
  static int64_t group_ints(const DispatchLimits& limits) {
    return device::expert_group_ints(limits.pairs(), limits.n_experts);
  }

  const ExpertLayout& layout_;
  DispatchLimits limits_;
  std::unique_ptr<device::Buffer> inputs_;   // [pairs][max(dim, ffn)] scratch
  std::unique_ptr<device::Buffer> outputs_;  // [pairs][dim]
  std::unique_ptr<device::Buffer> hidden_;   // [pairs][ffn] scratch
  std::unique_ptr<device::Buffer> groups_;   // int32 scratch
};

}  // namespace strata::experts
