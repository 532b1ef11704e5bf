#include <algorithm>

#include "device/host/host_ops.h"
#include "kernels/rope.h"

namespace strata::device::host {
namespace {

int32_t block_of(const RowMap& rows, int64_t slot, int64_t position, int block_tokens) {
  return rows.block_table.row(slot)[position / block_tokens];
}

}  // namespace

void run(const RopeAngles& op, Compute& compute) {
  const int n_pairs = static_cast<int>(op.inv_freq.cols);
  compute.pool().for_each(op.live.data()[0], 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* cos = op.cos_sin.row(r);
      kernels::rope_angles(op.positions.data()[r], op.inv_freq.data(), n_pairs, op.magnitude, cos, cos + n_pairs);
    }
  });
}

void run(const RopeAppend& op, Compute& compute) {
  const kernels::Kernels& kernel = compute.kernels();
  const int dim = op.kv.key_dim;
  const int n_pairs = static_cast<int>(op.cos_sin.cols / 2);
  const auto head = [&](float* x, const In<float>& gain, const float* cos) {
    if (!gain.empty()) kernel.rms_norm(x, gain.data(), x, dim, op.eps);
    kernel.rope(x, cos, cos + n_pairs, n_pairs, op.interleaved);
  };
  compute.pool().for_each(op.rows.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const float* cos = op.cos_sin.row(r);
      for (int h = 0; h < op.n_heads; h++) head(op.q.row(r) + h * op.q_head_stride, op.q_norm, cos);
      for (int h = 0; h < op.kv.n_kv_heads; h++) head(op.k.row(r) + h * dim, op.k_norm, cos);
      const int64_t position = op.rows.positions.data()[r];
      const int64_t block = block_of(op.rows, op.rows.slots.data()[r], position, op.kv.block_tokens);
      const size_t token = static_cast<size_t>(block * op.kv.block_tokens + position % op.kv.block_tokens);
      auto* k = reinterpret_cast<uint8_t*>(op.kv.k->address()) + token * op.kv.k_token_bytes();
      auto* v = reinterpret_cast<uint8_t*>(op.kv.v->address()) + token * op.kv.v_token_bytes();
      kernel.kv_store(op.kv.type, op.k.row(r), k, op.k.cols);
      kernel.kv_store(op.kv.type, op.v.row(r), v, op.v.cols);
    }
  });
}

int64_t scratch_floats(const Attention& op) {
  return kernels::attention_scratch(op.n_heads / op.kv.n_kv_heads, op.kv.value_dim, op.kv.block_tokens);
}

void run(const Attention& op, Compute& compute) {
  const int group = op.n_heads / op.kv.n_kv_heads;
  const int64_t n_items = int64_t{op.rows.live.data()[0]} * op.kv.n_kv_heads;
  compute.pool().for_each(n_items, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t r = item / op.kv.n_kv_heads;
      const int kv_head = static_cast<int>(item % op.kv.n_kv_heads);
      const int first_head = kv_head * group;
      const int64_t position = op.rows.positions.data()[r];
      const size_t element = kernels::kv_bytes(op.kv.type);
      kernels::AttentionArgs args{};
      args.q = op.q.row(r) + int64_t{first_head} * op.q_head_stride;
      args.q_stride = op.q_head_stride;
      args.n_q = group;
      args.head_dim = op.kv.key_dim;
      args.value_dim = op.kv.value_dim;
      args.type = op.kv.type;
      args.k = reinterpret_cast<const uint8_t*>(op.kv.k->address());
      args.v = reinterpret_cast<const uint8_t*>(op.kv.v->address());
      args.k_token_bytes = op.kv.k_token_bytes();
      args.v_token_bytes = op.kv.v_token_bytes();
      args.k_head_offset = static_cast<size_t>(kv_head) * op.kv.key_dim * element;
      args.v_head_offset = static_cast<size_t>(kv_head) * op.kv.value_dim * element;
      args.block_table = op.rows.block_table.row(op.rows.slots.data()[r]);
      args.block_tokens = op.kv.block_tokens;
      args.first = op.window > 0 ? std::max<int64_t>(0, position - op.window + 1) : 0;
      args.last = position;
      args.scale = op.scale;
      args.sinks = op.sinks.empty() ? nullptr : op.sinks.data() + first_head;
      args.out = op.y.row(r) + int64_t{first_head} * op.kv.value_dim;
      args.out_stride = op.kv.value_dim;
      args.scratch = compute.scratch(worker, scratch_floats(op));
      compute.kernels().attention(args);
      if (!op.gated) continue;
      for (int h = 0; h < group; h++) {
        compute.kernels().sigmoid_mul(args.out + h * args.out_stride, args.q + h * args.q_stride + op.kv.key_dim,
                                      op.kv.value_dim);
      }
    }
  });
}

}  // namespace strata::device::host
