#include "device/cuda/ops_product.h"

#include "kernels/cuda/matvec.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

// Up to here reading the weights once for each four rows, or each pair, costs less than tiles that are mostly empty:
// what is read twice comes from the second-level cache.
constexpr int64_t kFewRows = 8;
constexpr int64_t kFewPairs = 128;

kernel::Product product_of(const Weight& w, const In<float>& x, const In<float>& bias, const In<int32_t>& live,
                           const View<float>& y) {
  kernel::Product p;
  p.parts[0] = {.type = w.type, .row_bytes = w.row_bytes};
  p.rows = w.rows;
  p.cols = w.cols;
  p.memory = w.matrix().data;
  p.live = live.data();
  p.max_items = x.rows;
  p.x = x.data();
  p.x_stride = x.stride;
  p.y = y.data();
  p.y_stride = y.stride;
  p.bias = bias.empty() ? nullptr : bias.data();
  return p;
}

bool in_tiles(const kernel::Product& product, const OpContext& context) {
  if (context.deterministic) return true;  // one order of sums for any number of rows
  return product.max_items > (product.experts.slot_of != nullptr ? kFewPairs : kFewRows);
}

size_t product_workspace(const kernel::Product& product, const OpContext& context) {
  return in_tiles(product, context) ? kernel::tiles_workspace(product) : 0;
}

void run_product(const kernel::Product& product, const OpContext& context) {
  if (in_tiles(product, context)) return kernel::launch_tiles(product, context.workspace, context.stream);
  kernel::launch_matvec(product, context.n_sms, context.max_shared_bytes, context.stream);
}

}  // namespace strata::device::cuda
