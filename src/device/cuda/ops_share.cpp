#include "device/cuda/cuda_ops.h"
#include "kernels/cuda/route.h"
#include "kernels/cuda/share.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

void run(const ShareExperts& op, const OpContext& context) {
  ASSERT(op.place_of.cols <= kernel::kMaxRouted);
  const auto data = [](const auto& view) { return view.empty() ? nullptr : view.data(); };
  kernel::launch_share({.ids = op.ids.data(),
                        .ids_stride = op.ids.stride,
                        .k = static_cast<int>(op.ids.cols),
                        .x = op.x.data(),
                        .x_stride = op.x.stride,
                        .cols = op.x.cols,
                        .n_experts = static_cast<int>(op.place_of.cols),
                        .slot_of = data(op.slot_of),
                        .linked = data(op.linked),
                        .share = data(op.share),
                        .place_of = op.place_of.data(),
                        .told_live = op.told_live.data(),
                        .told_ids = op.told_ids.data(),
                        .told_ids_stride = op.told_ids.stride,
                        .told_places = op.told_places.data(),
                        .told_x = op.told_x.data(),
                        .told_x_stride = op.told_x.stride},
                       {op.live.data(), op.x.rows}, context.stream);
}

void run(const FetchExperts& op, const OpContext& context) {
  ASSERT(op.place_of.cols <= kernel::kMaxRouted);
  kernel::launch_fetch({.place_of = op.place_of.data(),
                        .linked_at = op.linked_at.data(),
                        .n_experts = static_cast<int>(op.place_of.cols),
                        .blob_bytes = op.blob_bytes,
                        .stage = op.stage.data(),
                        .stage_stride = op.stage.stride,
                        .n_places = static_cast<int>(op.stage.rows),
                        .staged_at = op.staged_at.data()},
                       context.n_sms, context.stream);
}

}  // namespace strata::device::cuda
