// The gated delta net on a CUDA device. Every segment takes the step form, whatever chunk_min_rows says: the state
// stays in registers over a segment, which makes it the faster form as well.
#include "device/cuda/cuda_ops.h"
#include "device/cuda/ops_maps.h"
#include "kernels/cuda/delta.h"

namespace strata::device::cuda {

namespace kernel = kernels::cuda;

void run(const DeltaConv& op, const OpContext& context) {
  kernel::launch_conv({.x = op.x.data(),
                       .x_stride = op.x.stride,
                       .taps = op.taps.data(),
                       .state = op.conv_state.data(),
                       .state_stride = op.conv_state.stride,
                       .y = op.y.data(),
                       .y_stride = op.y.stride,
                       .rows = op.x.rows,
                       .channels = op.shape.channels(),
                       .kernel = op.shape.kernel,
                       .n_key_heads = op.shape.n_key_heads,
                       .key_dim = op.shape.key_dim,
                       .eps = op.eps},
                      segments_of(op.segments), context.stream);
}

void run(const DeltaGates& op, const OpContext& context) {
  kernel::launch_gates({.ba = op.ba.data(),
                        .ba_stride = op.ba.stride,
                        .dt_bias = op.dt_bias.data(),
                        .decay = op.decay.data(),
                        .g_beta = op.g_beta.data(),
                        .g_beta_stride = op.g_beta.stride,
                        .n_heads = static_cast<int>(op.dt_bias.cols),
                        .n_key_heads = op.n_key_heads,
                        .grouped = op.grouped},
                       {op.live.data(), op.ba.rows}, context.stream);
}

void run(const DeltaNet& op, const OpContext& context) {
  kernel::launch_delta_rule({.qkv = op.qkv.data(),
                             .qkv_stride = op.qkv.stride,
                             .g_beta = op.g_beta.data(),
                             .g_beta_stride = op.g_beta.stride,
                             .state = op.state.data(),
                             .state_stride = op.state.stride,
                             .y = op.y.data(),
                             .y_stride = op.y.stride,
                             .n_heads = op.shape.n_value_heads,
                             .n_key_heads = op.shape.n_key_heads,
                             .dk = op.shape.key_dim,
                             .dv = op.shape.value_dim,
                             .tiled = op.shape.tiled},
                            segments_of(op.segments), context.stream);
}

void run(const GatedNorm& op, const OpContext& context) {
  kernels::cuda::launch_gated_norm({.x = op.x.data(),
                                    .x_stride = op.x.stride,
                                    .z = op.z.data(),
                                    .z_stride = op.z.stride,
                                    .gain = op.gain.data(),
                                    .n_heads = op.x.cols / op.gain.cols,
                                    .dim = op.gain.cols,
                                    .sigmoid_gate = op.sigmoid_gate,
                                    .eps = op.eps},
                                   {op.live.data(), op.x.rows}, context.stream);
}

}  // namespace strata::device::cuda
