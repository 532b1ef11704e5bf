#include "experts/device_rows.h"

#include "experts/blob.h"

namespace strata::experts {
namespace {

uint64_t float_bytes(int64_t n) { return static_cast<uint64_t>(n) * sizeof(float); }

}  // namespace

Result<std::unique_ptr<DeviceRows>> DeviceRows::create(device::Device& device, const ExpertLayout& layout,
                                                       const DispatchLimits& limits) {
  std::unique_ptr<DeviceRows> rows(new DeviceRows(layout, limits));
  const int64_t pairs = limits.pairs();
  ASSIGN_OR_RETURN(rows->inputs_,
                   device.allocate(float_bytes(pairs * limits.input_cols()), "expert inputs"));
  ASSIGN_OR_RETURN(rows->outputs_, device.allocate(float_bytes(pairs * limits.dim), "expert output rows"));
  ASSIGN_OR_RETURN(rows->hidden_, device.allocate(float_bytes(pairs * limits.ffn), "expert hidden rows"));
  ASSIGN_OR_RETURN(rows->groups_,
                   device.allocate(static_cast<size_t>(group_ints(limits)) * sizeof(int32_t), "expert groups"));
  return rows;
}

uint64_t DeviceRows::bytes_needed(const DispatchLimits& limits) {
  return float_bytes(limits.pairs() * (limits.input_cols() + limits.dim + limits.ffn)) +
         static_cast<uint64_t>(group_ints(limits)) * sizeof(int32_t);
}

void DeviceRows::enqueue(device::Stream& stream, const LayerRows& rows, const device::ExpertSlots& slots,
                         const device::In<int32_t>& slot_of) const {
  const int64_t pairs = limits_.pairs();
  stream.enqueue(device::ExpertFfn{.x = rows.x,
                                   .ids = rows.ids,
                                   .live = rows.live,
                                   .slot_of = slot_of,
                                   .slots = slots,
                                   .blob = packed_blob(layout_.layer(rows.layer)),
                                   .formula = rows.formula,
                                   .inputs = device::view_of<float>(*inputs_, pairs, limits_.input_cols()),
                                   .hidden = device::view_of<float>(*hidden_, pairs, limits_.ffn),
                                   .groups = device::view_of<int32_t>(*groups_, 1, group_ints(limits_)),
                                   .y = device::view_of<float>(*outputs_, pairs, limits_.dim),
                                   .weights = rows.weights,
                                   .sum = rows.sum});
}

device::View<float> DeviceRows::outputs(int64_t pairs) const {
  return device::view_of<float>(*outputs_, pairs, limits_.dim);
}

}  // namespace strata::experts
