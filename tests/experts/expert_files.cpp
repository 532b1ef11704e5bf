#include "experts/expert_files.h"

#include <algorithm>

#include "base/format.h"
#include "base/random.h"
#include "device/random_weights.h"
#include "gguf/split.h"

namespace strata::test {

using experts::ExpertKey;
using experts::PartKind;

namespace {

bool is_matrix(PartKind kind) {
  return kind == PartKind::kGate || kind == PartKind::kUp || kind == PartKind::kDown;
}
bool is_scale(PartKind kind) {
  return kind == PartKind::kGateScale || kind == PartKind::kUpScale || kind == PartKind::kDownScale;
}

std::vector<std::byte> to_bytes(const std::vector<uint8_t>& from) {
  const auto* begin = reinterpret_cast<const std::byte*>(from.data());
  return {begin, begin + from.size()};
}

std::vector<uint8_t> filled(const ExpertSpec& spec, const FillPart& fill, ExpertKey key, PartKind kind) {
  std::vector<uint8_t> bytes(part_bytes(spec, kind));
  fill(key, kind, bytes);
  return bytes;
}

// The bytes of some parts of every expert, expert after expert.
std::vector<std::byte> all_experts(const ExpertSpec& spec, const FillPart& fill, int32_t layer,
                                   std::initializer_list<PartKind> kinds) {
  std::vector<uint8_t> all;
  for (int32_t e = 0; e < spec.n_experts; e++) {
    for (const PartKind kind : kinds) {
      const std::vector<uint8_t> bytes = filled(spec, fill, {layer, e}, kind);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return to_bytes(all);
}

struct Name {
  PartKind kind;
  const char* name;
};

void add_merged(const ExpertSpec& spec, const FillPart& fill, int32_t layer, std::vector<TensorSpec>& out) {
  const auto dim = static_cast<uint64_t>(spec.dim), ffn = static_cast<uint64_t>(spec.ffn);
  const auto n = static_cast<uint64_t>(spec.n_experts);
  const auto add = [&](const std::string& name, std::vector<uint64_t> ne, std::initializer_list<PartKind> kinds) {
    out.push_back({.name = format("blk.{}.{}", layer, name), .ne = std::move(ne),
                   .type = static_cast<uint32_t>(part_type(spec, *kinds.begin())),
                   .data = all_experts(spec, fill, layer, kinds)});
  };
  if (spec.form == ExpertSpec::Form::kFused) {
    add("ffn_gate_up_exps.weight", {dim, 2 * ffn, n}, {PartKind::kGate, PartKind::kUp});
  } else {
    add("ffn_gate_exps.weight", {dim, ffn, n}, {PartKind::kGate});
    add("ffn_up_exps.weight", {dim, ffn, n}, {PartKind::kUp});
  }
  add("ffn_down_exps.weight", {ffn, dim, n}, {PartKind::kDown});
  if (spec.biases) {
    add("ffn_gate_exps.bias", {ffn, n}, {PartKind::kGateBias});
    add("ffn_up_exps.bias", {ffn, n}, {PartKind::kUpBias});
    add("ffn_down_exps.bias", {dim, n}, {PartKind::kDownBias});
  }
  if (spec.scales) {
    add("ffn_gate_exps.scale", {n}, {PartKind::kGateScale});
    add("ffn_up_exps.scale", {n}, {PartKind::kUpScale});
    add("ffn_down_exps.scale", {n}, {PartKind::kDownScale});
  }
}

// Downwards and projection by projection, so that neither experts nor projections are in order.
void add_separate(const ExpertSpec& spec, const FillPart& fill, int32_t layer, std::vector<TensorSpec>& out) {
  constexpr Name kNames[] = {{PartKind::kDown, "ffn_down"}, {PartKind::kGate, "ffn_gate"}, {PartKind::kUp, "ffn_up"}};
  for (const Name& row : kNames) {
    for (auto e = static_cast<int32_t>(spec.n_experts) - 1; e >= 0; e--) {
      const bool down = row.kind == PartKind::kDown;
      out.push_back(
          {.name = format("blk.{}.{}.{}.weight", layer, row.name, e),
           .ne = {static_cast<uint64_t>(down ? spec.ffn : spec.dim), static_cast<uint64_t>(down ? spec.dim : spec.ffn)},
           .type = static_cast<uint32_t>(part_type(spec, row.kind)),
           .data = to_bytes(filled(spec, fill, {layer, e}, row.kind))});
    }
  }
}

}  // namespace

quant::Type part_type(const ExpertSpec& spec, PartKind kind) {
  if (!is_matrix(kind)) return quant::Type::F32;
  return kind == PartKind::kDown ? spec.down_type : spec.gate_up_type;
}

size_t part_elements(const ExpertSpec& spec, PartKind kind) {
  if (is_matrix(kind)) return static_cast<size_t>(spec.dim * spec.ffn);
  if (is_scale(kind)) return 1;
  return static_cast<size_t>(kind == PartKind::kDownBias ? spec.dim : spec.ffn);
}
size_t part_bytes(const ExpertSpec& spec, PartKind kind) {
  return quant::row_bytes(part_type(spec, kind), part_elements(spec, kind));
}

std::vector<TensorSpec> expert_tensors(const ExpertSpec& spec, const FillPart& fill) {
  std::vector<TensorSpec> tensors;
  for (int32_t layer = 0; layer < spec.n_layers; layer++) {
    if (spec.form == ExpertSpec::Form::kSeparate) add_separate(spec, fill, layer, tensors);
    else add_merged(spec, fill, layer, tensors);
  }
  return tensors;
}

FillPart random_parts(const ExpertSpec& spec, uint64_t seed) {
  return [spec, seed](ExpertKey key, PartKind kind, std::vector<uint8_t>& bytes) {
    Random random(seed + static_cast<uint64_t>((key.layer * 1000 + key.expert) * experts::kPartKinds) +
                  static_cast<uint64_t>(kind));
    if (is_matrix(kind)) {
      bytes = random_weights(part_type(spec, kind), part_elements(spec, kind), random);
      return;
    }
    for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      const double value = is_scale(kind) ? 0.5 + random.uniform() : 0.5 + random.normal();
      store_le(bytes.data() + i, static_cast<float>(value));
    }
  };
}

uint8_t part_number(ExpertKey key, PartKind kind) {
  return static_cast<uint8_t>(1 + key.layer * 101 + key.expert * 11 + static_cast<int>(kind));
}
FillPart numbered_parts() {
  return [](ExpertKey key, PartKind kind, std::vector<uint8_t>& bytes) {
    std::fill(bytes.begin(), bytes.end(), part_number(key, kind));
  };
}

ExpertFiles::ExpertFiles(const std::vector<TensorSpec>& tensors, int n_files) {
  for (int i = 0; i < n_files; i++) {
    GgufBuilder builder;
    if (i == 0) builder.string("general.architecture", "test");
    if (n_files > 1) {
      builder.split(static_cast<uint16_t>(i), static_cast<uint16_t>(n_files), static_cast<int32_t>(tensors.size()));
    }
    for (size_t t = static_cast<size_t>(i); t < tensors.size(); t += static_cast<size_t>(n_files))
      builder.tensor(tensors[t]);
    const std::string name = n_files > 1 ? gguf::split_file_name("moe", i + 1, n_files) : "moe.gguf";
    system_.add_file("/models/" + name, builder.bytes());
    if (i == 0) path_ = "/models/" + name;
  }
}

}  // namespace strata::test
