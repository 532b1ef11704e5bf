#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "experts/expert.h"

namespace strata::experts {
namespace {

using gguf::Model;
using gguf::TensorInfo;

Error shape_error(const Model& model, const TensorInfo& t, const std::string& expected) {
  return {ErrorCode::kBadInput, format("{}: tensor {} has shape [{}, {}, {}], expected {}", model.path(), t.name,
                                       t.ne[0], t.ne[1], t.ne[2], expected)};
}

Error type_error(const Model& model, const TensorInfo& t) {
  return {ErrorCode::kUnsupported, format("{}: tensor {} has type {}, which experts cannot have here", model.path(),
                                          t.name, quant::info(t.type).name)};
}

// One row of what a blob may hold: the tensor it comes from and how its shape follows from the model's.
struct PartRow {
  PartKind kind;
  const char* stem;    // between "blk.N." and the ending
  const char* ending;  // ".weight", ".bias", ".scale"
  bool matrix;
};
constexpr PartRow kPartRows[] = {
    {PartKind::kGate, "ffn_gate_exps", ".weight", true},      {PartKind::kUp, "ffn_up_exps", ".weight", true},
    {PartKind::kGateUp, "ffn_gate_up_exps", ".weight", true}, {PartKind::kDown, "ffn_down_exps", ".weight", true},
    {PartKind::kGateBias, "ffn_gate_exps", ".bias", false},   {PartKind::kUpBias, "ffn_up_exps", ".bias", false},
    {PartKind::kDownBias, "ffn_down_exps", ".bias", false},   {PartKind::kGateScale, "ffn_gate_exps", ".scale", false},
    {PartKind::kUpScale, "ffn_up_exps", ".scale", false},     {PartKind::kDownScale, "ffn_down_exps", ".scale", false},
};
static_assert(std::size(kPartRows) == kPartKinds);

struct Dims {
  int64_t dim, ffn, n_experts;
};

int64_t part_rows(PartKind kind, const Dims& d) {
  switch (kind) {
    case PartKind::kGate:
    case PartKind::kUp:
      return d.ffn;
    case PartKind::kGateUp:
      return 2 * d.ffn;
    case PartKind::kDown:
      return d.dim;
    default:
      return 1;
  }
}
int64_t part_cols(PartKind kind, const Dims& d) {
  switch (kind) {
    case PartKind::kGate:
    case PartKind::kUp:
    case PartKind::kGateUp:
      return d.dim;
    case PartKind::kDown:
    case PartKind::kGateBias:
    case PartKind::kUpBias:
      return d.ffn;
    case PartKind::kDownBias:
      return d.dim;
    default:
      return 1;
  }
}

BlobPart make_part(PartKind kind, const TensorInfo& t, const Dims& d) {
  BlobPart part{.kind = kind,
                .type = t.type,
                .rows = part_rows(kind, d),
                .cols = part_cols(kind, d),
                .row_bytes = 0,
                .bytes = 0,
                .places = {}};
  part.row_bytes = quant::row_bytes(t.type, static_cast<size_t>(part.cols));
  part.bytes = part.row_bytes * static_cast<size_t>(part.rows);
  return part;
}

// A merged tensor: matrices [cols, rows, experts], vectors [cols, experts], scales [experts].
Result<BlobPart> merged_part(const Model& model, const PartRow& row, const TensorInfo& t, const Dims& d) {
  const uint64_t rows = static_cast<uint64_t>(part_rows(row.kind, d));
  const uint64_t cols = static_cast<uint64_t>(part_cols(row.kind, d));
  const uint64_t n = static_cast<uint64_t>(d.n_experts);
  const bool scale = row.ending == std::string_view(".scale");
  const bool fits = row.matrix ? t.ne[0] == cols && t.ne[1] == rows && t.ne[2] == n && t.ne[3] == 1
                    : scale    ? t.ne[0] * t.ne[1] == n && t.ne[2] == 1 && t.ne[3] == 1
                               : t.ne[0] == cols && t.ne[1] == n && t.ne[2] == 1 && t.ne[3] == 1;
  if (!fits) {
    return shape_error(model, t,
                       row.matrix ? format("[{}, {}, {}]", cols, rows, n)
                       : scale    ? format("[{}]", n)
                                  : format("[{}, {}]", cols, n));
  }
  if (quant::info(t.type).decode == nullptr || (!row.matrix && t.type != quant::Type::F32)) return type_error(model, t);
  BlobPart part = make_part(row.kind, t, d);
  part.places.reserve(n);
  for (uint64_t e = 0; e < n; e++) part.places.push_back({t.shard, t.file_offset + e * part.bytes});
  return part;
}

// The old form: one tensor per expert, in any order and file, of one type per layer and projection.
Result<BlobPart> separate_part(const Model& model, const std::string& prefix, PartKind kind, const char* name,
                               const Dims& d) {
  BlobPart part{};
  for (int64_t e = 0; e < d.n_experts; e++) {
    const std::string tensor = format("{}{}.{}.weight", prefix, name, e);
    const TensorInfo* t = model.find_tensor(tensor);
    if (t == nullptr) {
      return Error{ErrorCode::kBadInput,
                   format("{}: tensor {} is missing ({} experts are declared)", model.path(), tensor, d.n_experts)};
    }
    if (quant::info(t->type).decode == nullptr) return type_error(model, *t);
    if (e == 0) part = make_part(kind, *t, d);
    if (t->type != part.type || t->ne[0] != static_cast<uint64_t>(part.cols) ||
        t->ne[1] != static_cast<uint64_t>(part.rows) || t->ne[2] != 1 || t->ne[3] != 1) {
      return shape_error(model, *t, format("[{}, {}] of one type for all experts of a layer", part.cols, part.rows));
    }
    part.places.push_back({t->shard, t->file_offset});
  }
  return part;
}

Status add_separate(const Model& model, const std::string& prefix, const Dims& d, LayerLayout& layer) {
  constexpr std::pair<PartKind, const char*> kNames[] = {
      {PartKind::kGate, "ffn_gate"}, {PartKind::kUp, "ffn_up"}, {PartKind::kDown, "ffn_down"}};
  for (const auto& [kind, name] : kNames) {
    ASSIGN_OR_RETURN(BlobPart part, separate_part(model, prefix, kind, name, d));
    layer.parts.push_back(std::move(part));
  }
  return {};
}

// No file format says what a bias or scale of the fused tensor would mean, and leaving one out would give wrong sums.
Status check_fused_extras(const Model& model, const std::string& prefix) {
  for (const char* name : {"ffn_gate_up_exps.bias", "ffn_gate_up_exps.scale"}) {
    if (model.find_tensor(prefix + name) == nullptr) continue;
    return Error{ErrorCode::kUnsupported,
                 format("{}: tensor {}{} is not supported; convert the model with separate gate and up experts",
                        model.path(), prefix, name)};
  }
  return {};
}

Status check_complete(const Model& model, const std::string& prefix, const LayerLayout& layer) {
  const bool fused = layer.find(PartKind::kGateUp) != nullptr;
  const bool split = layer.find(PartKind::kGate) != nullptr && layer.find(PartKind::kUp) != nullptr;
  const char* missing = nullptr;
  if (!fused && !split) missing = layer.find(PartKind::kGate) == nullptr ? "ffn_gate_exps" : "ffn_up_exps";
  if (layer.find(PartKind::kDown) == nullptr) missing = "ffn_down_exps";
  if (missing != nullptr) {
    return Error{ErrorCode::kBadInput, format("{}: tensor {}{}.weight is missing", model.path(), prefix, missing)};
  }
  if (fused && (layer.find(PartKind::kGate) != nullptr || layer.find(PartKind::kUp) != nullptr)) {
    return Error{ErrorCode::kBadInput,
                 format("{}: layer {} has both fused and separate gate and up experts", model.path(), prefix)};
  }
  return {};
}

}  // namespace

int LayerLayout::index(PartKind kind) const {
  for (size_t i = 0; i < parts.size(); i++) {
    if (parts[i].kind == kind) return static_cast<int>(i);
  }
  return -1;
}
const BlobPart* LayerLayout::find(PartKind kind) const {
  const int i = index(kind);
  return i < 0 ? nullptr : &parts[static_cast<size_t>(i)];
}
size_t LayerLayout::part_offset(int part) const {
  size_t offset = 0;
  for (int i = 0; i < part; i++) offset += align_up(parts[static_cast<size_t>(i)].bytes, kPartAlignment);
  return offset;
}
size_t LayerLayout::blob_bytes() const { return part_offset(static_cast<int>(parts.size())); }

uint64_t ExpertLayout::total_bytes() const {
  uint64_t total = 0;
  for (const LayerLayout& layer : layers_) total += layer.blob_bytes() * static_cast<uint64_t>(layer.n_experts);
  return total;
}
size_t ExpertLayout::largest_blob_bytes() const {
  size_t largest = 0;
  for (const LayerLayout& layer : layers_) largest = std::max(largest, layer.blob_bytes());
  return largest;
}

Result<ExpertLayout> ExpertLayout::from_model(const Model& model, int n_layers, int64_t dim, int64_t ffn,
                                              int64_t n_experts) {
  ExpertLayout layout;
  const Dims dims{dim, ffn, n_experts};
  for (int i = 0; i < n_layers; i++) {
    const std::string prefix = format("blk.{}.", i);
    LayerLayout layer;
    for (const PartRow& row : kPartRows) {
      const TensorInfo* t = model.find_tensor(prefix + row.stem + row.ending);
      if (t == nullptr) continue;
      ASSIGN_OR_RETURN(BlobPart part, merged_part(model, row, *t, dims));
      layer.parts.push_back(std::move(part));
    }
    if (layer.parts.empty() && model.find_tensor(prefix + "ffn_gate.0.weight") != nullptr) {
      RETURN_IF_ERROR(add_separate(model, prefix, dims, layer));
    }
    if (!layer.parts.empty()) {
      RETURN_IF_ERROR(check_complete(model, prefix, layer));
      RETURN_IF_ERROR(check_fused_extras(model, prefix));
      layer.n_experts = static_cast<int32_t>(n_experts);
    }
    layout.first_.push_back(layout.n_experts());
    layout.offsets_.push_back(layout.total_bytes());
    layout.layers_.push_back(std::move(layer));
  }
  return layout;
}

}  // namespace strata::experts
