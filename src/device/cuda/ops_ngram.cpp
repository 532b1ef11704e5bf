// What looked-up features add to residuals of several streams, on a CUDA device.
#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_maps.h"
#include "kernels/cuda/ngram.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

void run(const StreamGate& op, const OpContext& context) {
  kernel::launch_stream_gate({.x = op.x.data(),
                              .x_stride = op.x.stride,
                              .key = op.key.data(),
                              .key_stride = op.key.stride,
                              .value = op.value.data(),
                              .value_stride = op.value.stride,
                              .key_gain = op.key_gain.data(),
                              .query_gain = op.query_gain.data(),
                              .out_gain = op.out_gain.data(),
                              .normed = op.normed.data(),
                              .normed_stride = op.normed.stride,
                              .n_streams = op.x.cols / op.value.cols,
                              .dim = op.value.cols,
                              .eps = op.eps},
                             {op.live.data(), op.x.rows}, context.stream);
}

void run(const DistantConv& op, const OpContext& context) {
  kernel::launch_distant_conv({.y = op.y.data(),
                               .y_stride = op.y.stride,
                               .add = op.add.data(),
                               .add_stride = op.add.stride,
                               .taps = op.taps.data(),
                               .history = op.history.data(),
                               .history_stride = op.history.stride,
                               .positions = op.positions.data(),
                               .x = op.x.data(),
                               .x_stride = op.x.stride,
                               .rows = op.x.rows,
                               .channels = op.x.cols,
                               .kernel = op.kernel,
                               .distance = op.distance,
                               .depth = op.depth()},
                              segments_of(op.segments), context.stream);
}

}  // namespace strata::device::cuda
