#include "gguf/quantize/mix.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace strata::gguf {
namespace {

using quant::Type;

// Pieces of names of tensors that stay as they are.
constexpr std::string_view kKept[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight",
    "position_embd", "token_types.weight",
    "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight",
    "altup", "laurel", "per_layer_model_proj", "attn_rel_b.weight",
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight",
    "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
    "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook",
    "mm.a.code_embd",
};

// A number above this is none of a model, and could overflow the rules' arithmetic.
constexpr int64_t kMaxCount = 1'000'000;

enum class Kind { kOutput, kEmbedding, kAttnV, kAttnK, kAttnOutput, kFfnDown, kOther };

bool contains(std::string_view name, std::string_view piece) { return name.find(piece) != std::string_view::npos; }

Kind kind_of(std::string_view name) {
  if (name == "output.weight") return Kind::kOutput;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Kind::kEmbedding;
  for (const char* piece : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"}) {
    if (contains(name, piece)) return Kind::kAttnV;
  }
  if (contains(name, "attn_k.weight")) return Kind::kAttnK;
  if (contains(name, "attn_output.weight")) return Kind::kAttnOutput;
  if (contains(name, "ffn_down")) return Kind::kFfnDown;
  return Kind::kOther;
}

// N of "blk.N."; nullopt for other names.
std::optional<int64_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t layer = -1;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  const bool number = error == std::errc() && end != name.data() + name.size() && *end == '.' && layer >= 0;
  return number ? std::optional(layer) : std::nullopt;
}

// The key's value, or its first element where layers have their own; 0 when there is none.
int64_t first_int(const Model& model, const std::string& key) {
  const Value* value = model.find(key);
  if (value == nullptr) return 0;
  const Result<int64_t> number = value->as_int(0);
  return number.ok() && *number >= 0 && *number <= kMaxCount ? *number : 0;
}

// Tensors of one kind, counted in the order of layers and, within a layer, of names.
class Counter {
 public:
  Counter(std::span<const TensorInfo> tensors, Kind kind) : numbers_(tensors.size(), 0) {
    std::vector<size_t> order;
    for (size_t i = 0; i < tensors.size(); i++) {
      if (kind_of(tensors[i].name) == kind) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const int64_t layer_a = layer_of(tensors[a].name).value_or(-1), layer_b = layer_of(tensors[b].name).value_or(-1);
      return layer_a != layer_b ? layer_a < layer_b : tensors[a].name < tensors[b].name;
    });
    for (size_t i = 0; i < order.size(); i++) numbers_[order[i]] = static_cast<int64_t>(i);
    count_ = static_cast<int64_t>(order.size());
  }

  int64_t number(size_t tensor) const { return numbers_[tensor]; }
  int64_t count() const { return count_; }

 private:
  std::vector<int64_t> numbers_;
  int64_t count_ = 0;
};

// The rules of one file type on one model.
class Mixer {
 public:
  Mixer(const FileType& file, const ModelShape& shape, std::span<const TensorInfo> tensors)
      : file_(file), shape_(shape), tensors_(tensors),
        attn_v_(tensors, Kind::kAttnV), ffn_down_(tensors, Kind::kFfnDown) {
    tied_ = std::none_of(tensors.begin(), tensors.end(),
                         [](const TensorInfo& tensor) { return kind_of(tensor.name) == Kind::kOutput; });
  }

  Type type(size_t i) const {
    const TensorInfo& tensor = tensors_[i];
    const Kind kind = kind_of(tensor.name);
    if (file_.experts_only) {
      const bool is_output = kind == Kind::kOutput || (tied_ && kind == Kind::kEmbedding);
      return tensor.ne[2] > 1 && !is_output ? file_.base : Type::Q8_0;
    }
    switch (kind) {
      case Kind::kOutput: return output_type(tensor);
      case Kind::kEmbedding: return tied_ ? output_type(tensor) : file_.embedding;
      case Kind::kAttnV: return eight() ? Type::Q8_0 : file_.attn_v.at(position(attn_v_.number(i), attn_v_.count()));
      case Kind::kAttnK: return eight() ? Type::Q8_0 : file_.base;
      case Kind::kAttnOutput: return attn_output_type();
      case Kind::kFfnDown: return file_.ffn_down.at(position(down_index(i), shape_.n_layers));
      case Kind::kOther: return file_.base;
    }
    return file_.base;
  }

 private:
  bool eight() const { return shape_.n_experts == 8; }

  Position position(int64_t index, int64_t count) const {
    const bool gqa4 = shape_.n_kv_heads > 0 && shape_.n_heads / shape_.n_kv_heads >= 4;
    return {.index = index, .count = count, .gqa4 = gqa4};
  }

  // With experts, several tensors of a layer count as one.
  int64_t down_index(size_t i) const {
    const std::optional<int64_t> layer = layer_of(tensors_[i].name);
    return shape_.n_experts > 1 && layer ? *layer : ffn_down_.number(i);
  }

  Type output_type(const TensorInfo& tensor) const {
    if (tensor.ne[0] % quant::info(file_.base).block_elems != 0 || file_.base == Type::Q8_0) return Type::Q8_0;
    return Type::Q6_K;
  }

  // A rule of its own for eight experts takes the place of the others.
  Type attn_output_type() const {
    if (eight()) return file_.eight_experts ? Type::Q5_K : file_.base;
    return file_.attn_output.at(position(0, shape_.n_layers));
  }

  const FileType& file_;
  const ModelShape& shape_;
  std::span<const TensorInfo> tensors_;
  Counter attn_v_;
  Counter ffn_down_;
  bool tied_ = false;
};

Type fallback(Type type) {
  switch (type) {
    case Type::IQ4_XS: return Type::IQ4_NL;
    case Type::Q2_0:
    case Type::Q2_K:
    case Type::Q3_K:
    case Type::TQ1_0:
    case Type::TQ2_0: return Type::Q4_0;
    case Type::Q4_K: return Type::Q5_0;
    case Type::Q5_K: return Type::Q5_1;
    case Type::Q6_K: return Type::Q8_0;
    default: return Type::F16;
  }
}

}  // namespace

ModelShape read_shape(const Model& model) {
  const Result<std::string> architecture = model.string_or("general.architecture", "");
  const std::string prefix = (architecture.ok() ? *architecture : "") + ".";
  ModelShape shape;
  shape.n_layers = first_int(model, prefix + "block_count");
  shape.n_experts = first_int(model, prefix + "expert_count");
  shape.n_heads = first_int(model, prefix + "attention.head_count");
  const bool own = model.find(prefix + "attention.head_count_kv") != nullptr;
  shape.n_kv_heads = own ? first_int(model, prefix + "attention.head_count_kv") : shape.n_heads;
  return shape;
}

bool is_quantised(const TensorInfo& tensor) {
  // Trailing dimensions of 1 do not count.
  if (tensor.ne[1] == 1 && tensor.ne[2] == 1 && tensor.ne[3] == 1) return false;
  if (!tensor.name.ends_with("weight") || quant::info(tensor.type).decode == nullptr) return false;
  return std::none_of(std::begin(kKept), std::end(kKept),
                      [&](std::string_view piece) { return contains(tensor.name, piece); });
}

Type fitting_type(Type wanted, uint64_t row_elems) {
  const auto fits = [&](Type type) { return row_elems % quant::info(type).block_elems == 0; };
  if (fits(wanted)) return wanted;
  return fits(fallback(wanted)) ? fallback(wanted) : Type::F16;
}

std::vector<Choice> choose_types(const FileType& file, const ModelShape& shape, std::span<const TensorInfo> tensors,
                                 bool pure) {
  // Float types have no mixes: what costs least to keep is kept anyway.
  const bool mixed = !pure && quant::info(file.base).block_elems > 1;
  const Mixer mixer(file, shape, tensors);
  std::vector<Choice> choices(tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) {
    const Type own = tensors[i].type;
    if (!is_quantised(tensors[i])) {
      choices[i] = {own, own};
      continue;
    }
    choices[i].wanted = mixed ? mixer.type(i) : file.base;
    choices[i].type = fitting_type(choices[i].wanted, tensors[i].ne[0]);
  }
  return choices;
}

}  // namespace strata::gguf
