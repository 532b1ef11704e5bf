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

template <class... Ops>
struct Table {
  OpRow rows[sizeof...(Ops)] = {make_row<Ops>()...};
};
template <class... Ops>
constexpr Table<Ops...> make_table(OpList<Ops...>) {
  return {};
}

constexpr auto kTable = make_table(AllOps{});

}  // namespace

const OpRow& op_row(int op) { return kTable.rows[op]; }

}  // namespace strata::device::host
