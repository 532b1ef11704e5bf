#include "device/cuda/cuda_ops.h"

namespace strata::device::cuda {
namespace {

template <class Op>
constexpr OpRow make_row() {
  return {[](const void* args, const OpContext& context) { run(*static_cast<const Op*>(args), context); },
          [](const void* args, const OpContext& context) {
            return workspace_bytes(*static_cast<const Op*>(args), context);
          }};
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

}  // namespace strata::device::cuda
