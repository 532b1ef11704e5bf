// A model file of any size that takes no room: real metadata, and a hole where the tensors would be.
#pragma once

#include <filesystem>
#include <string>

#include "base/format.h"
#include "cli/models.h"
#include "gguf/gguf_builder.h"

namespace strata::test {

struct LargeModel {
  int n_layers = 48;
  uint64_t dim = 4096;
  uint64_t ffn = 1536;
  uint64_t n_experts = 64;
  uint64_t n_used = 8;
  uint64_t n_vocab = 32000;
};

// Writes a qwen3moe model with experts in Q4_K and the rest in Q8_0; returns the bytes of its experts.
inline uint64_t write_large_model(const std::string& path, const LargeModel& m) {
  constexpr uint64_t kHeads = 32, kKvHeads = 4, kHeadDim = 128;
  GgufBuilder builder;
  builder.string("general.architecture", "qwen3moe")
      .u32("qwen3moe.block_count", static_cast<uint32_t>(m.n_layers))
      .u32("qwen3moe.embedding_length", static_cast<uint32_t>(m.dim))
      .u32("qwen3moe.context_length", 32768)
      .f32("qwen3moe.attention.layer_norm_rms_epsilon", 1e-6F)
      .u32("qwen3moe.attention.head_count", kHeads)
      .u32("qwen3moe.attention.head_count_kv", kKvHeads)
      .u32("qwen3moe.attention.key_length", kHeadDim)
      .u32("qwen3moe.attention.value_length", kHeadDim)
      .u32("qwen3moe.expert_count", static_cast<uint32_t>(m.n_experts))
      .u32("qwen3moe.expert_used_count", static_cast<uint32_t>(m.n_used))
      .u32("qwen3moe.expert_feed_forward_length", static_cast<uint32_t>(m.ffn));
  uint64_t end = 0, expert_bytes = 0;
  const auto add = [&](const std::string& name, quant::Type type, std::vector<uint64_t> ne) {
    uint64_t bytes = quant::row_bytes(type, ne[0]);
    for (size_t i = 1; i < ne.size(); i++) bytes *= ne[i];
    builder.tensor({.name = name, .ne = std::move(ne), .type = static_cast<uint32_t>(type), .offset = end,
                    .data = std::vector<std::byte>()});
    end += align_up(bytes, builder.alignment);
    return bytes;
  };
  add("token_embd.weight", quant::Type::Q8_0, {m.dim, m.n_vocab});
  add("output.weight", quant::Type::Q8_0, {m.dim, m.n_vocab});
  add("output_norm.weight", quant::Type::F32, {m.dim});
  for (int l = 0; l < m.n_layers; l++) {
    const std::string prefix = format("blk.{}.", l);
    for (const char* norm : {"attn_norm", "ffn_norm"}) add(prefix + norm + ".weight", quant::Type::F32, {m.dim});
    for (const char* norm : {"attn_q_norm", "attn_k_norm"}) {
      add(prefix + norm + ".weight", quant::Type::F32, {kHeadDim});
    }
    add(prefix + "attn_q.weight", quant::Type::Q8_0, {m.dim, kHeads * kHeadDim});
    add(prefix + "attn_k.weight", quant::Type::Q8_0, {m.dim, kKvHeads * kHeadDim});
    add(prefix + "attn_v.weight", quant::Type::Q8_0, {m.dim, kKvHeads * kHeadDim});
    add(prefix + "attn_output.weight", quant::Type::Q8_0, {kHeads * kHeadDim, m.dim});
    add(prefix + "ffn_gate_inp.weight", quant::Type::F32, {m.dim, m.n_experts});
    expert_bytes += add(prefix + "ffn_gate_exps.weight", quant::Type::Q4_K, {m.dim, m.ffn, m.n_experts});
    expert_bytes += add(prefix + "ffn_up_exps.weight", quant::Type::Q4_K, {m.dim, m.ffn, m.n_experts});
    expert_bytes += add(prefix + "ffn_down_exps.weight", quant::Type::Q4_K, {m.ffn, m.dim, m.n_experts});
  }
  const std::vector<std::byte> head = builder.bytes();
  write_file(path, {reinterpret_cast<const char*>(head.data()), head.size()});
  std::filesystem::resize_file(path, builder.data_offset() + end);
  return expert_bytes;
}

}  // namespace strata::test
