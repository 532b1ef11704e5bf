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

constexpr auto kTable = op_table(AllOps{}, []<class Op>() { return make_row<Op>(); });

}  // namespace

const OpRow& op_row(int op) { return kTable[static_cast<size_t>(op)]; }

}  // namespace strata::device::cuda
