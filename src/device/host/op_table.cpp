#include "device/host/host_ops.h"

namespace strata::device::host {
namespace {

template <class Op>
concept HasFootprint = requires(const Op& op, RangeSink& sink) {
  op.footprint(sink);
};

template <class Op>
constexpr OpRow make_row() {
  OpRow row{};
  row.run = [](const void* args, Compute& compute) { run(*static_cast<const Op*>(args), compute); };
  row.scratch_floats = [](const void* args) { return scratch_floats(*static_cast<const Op*>(args)); };
  if constexpr (HasFootprint<Op>) {
    row.footprint = [](const void* args, RangeSink& sink) { static_cast<const Op*>(args)->footprint(sink); };
  }
  return row;
}

constexpr auto kTable = op_table(AllOps{}, []<class Op>() { return make_row<Op>(); });

}  // namespace

const OpRow& op_row(int op) { return kTable[static_cast<size_t>(op)]; }

}  // namespace strata::device::host
