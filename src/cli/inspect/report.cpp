#include "cli/inspect/report.h"

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "cli/model_choice.h"
#include "model/expert_layout.h"
#include "text/tokenizer.h"

namespace strata::cli {
namespace {

void add_totals(const gguf::TensorInfo& tensor, Report& report) {
  report.n_parameters += tensor.n_elements;
  report.tensor_bytes += tensor.bytes;
  auto total = std::find_if(report.types.begin(), report.types.end(),
                            [&](const TypeTotal& t) { return t.type == tensor.type; });
  if (total == report.types.end()) total = report.types.insert(total, TypeTotal{.type = tensor.type});
  total->n_tensors++;
  total->bytes += tensor.bytes;
}

// Where the experts lie, by the keys that all architectures share, so that models which this program can't run are
// described too. kBadInput where the file has no experts, or not as the keys say.
Result<experts::ExpertLayout> read_layout(const gguf::Model& model, const std::string& architecture) {
  const model::Keys keys(model, architecture);
  ASSIGN_OR_RETURN(const int64_t n_layers, keys.require_int("block_count", 1, model::kMaxLayers));
  ASSIGN_OR_RETURN(const int64_t dim, keys.require_int("embedding_length", 1, model::kMaxDim));
  ASSIGN_OR_RETURN(const int64_t n_experts, keys.require_int("expert_count", 1, model::kMaxExperts));
  ASSIGN_OR_RETURN(const int64_t dense_ffn, keys.uniform_int_or("feed_forward_length", 0, 0, model::kMaxFfn));
  ASSIGN_OR_RETURN(const int64_t ffn, keys.uniform_int_or("expert_feed_forward_length", dense_ffn, 1, model::kMaxFfn));
  return experts::ExpertLayout::from_model(model, static_cast<int>(n_layers), dim, ffn, n_experts);
}

ExpertLayers describe(int layer, const experts::LayerLayout& layout) {
  ExpertLayers out;
  out.first_layer = out.last_layer = layer;
  out.n_experts = layout.n_experts;
  for (const experts::BlobPart& part : layout.parts) {
    out.bytes += part.bytes;
    out.parts.push_back({.kind = part.kind, .type = part.type});
  }
  return out;
}

std::vector<ExpertLayers> describe(const experts::ExpertLayout& layout) {
  std::vector<ExpertLayers> all;
  for (size_t i = 0; i < layout.layers().size(); i++) {
    if (layout.layers()[i].n_experts == 0) continue;
    ExpertLayers layer = describe(static_cast<int>(i), layout.layers()[i]);
    const bool alike = !all.empty() && all.back().last_layer + 1 == layer.first_layer &&
                       all.back().n_experts == layer.n_experts && all.back().bytes == layer.bytes &&
                       all.back().parts == layer.parts;
    if (alike) {
      all.back().last_layer = layer.last_layer;
    } else {
      all.push_back(std::move(layer));
    }
  }
  return all;
}

// By the keys that all architectures share.
DraftBlocks find_draft_blocks(const gguf::Model& model, const std::string& architecture) {
  const model::Keys keys(model, architecture);
  const auto blocks = keys.require_int("block_count", 1, model::kMaxLayers);
  if (!blocks.ok()) return {};
  const auto drafting = keys.int_or("nextn_predict_layers", 0, 0, *blocks - 1);
  if (!drafting.ok()) return {};
  DraftBlocks draft{.first_layer = static_cast<int>(*blocks - *drafting), .n_layers = static_cast<int>(*drafting)};
  for (int layer = draft.first_layer; layer < static_cast<int>(*blocks); layer++) {
    const std::string prefix = format("blk.{}.", layer);
    for (const gguf::TensorInfo& tensor : model.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      draft.n_tensors++;
      draft.bytes += tensor.bytes;
    }
  }
  return draft;
}

Status check_runs(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(model));
  RETURN_IF_ERROR(model::expert_layout(model, hp));
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    if (quant::info(tensor.type).decode != nullptr) continue;
    return Error{ErrorCode::kUnsupported, format("{}: tensor {} has type {}, which is not for computing", model.path(),
                                                 tensor.name, quant::info(tensor.type).name)};
  }
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(model));
  return {};
}

}  // namespace

const char* part_name(experts::PartKind kind) {
  switch (kind) {
    case experts::PartKind::kGate: return "gate";
    case experts::PartKind::kUp: return "up";
    case experts::PartKind::kGateUp: return "gate_up";
    case experts::PartKind::kDown: return "down";
    case experts::PartKind::kGateBias: return "gate_bias";
    case experts::PartKind::kUpBias: return "up_bias";
    case experts::PartKind::kDownBias: return "down_bias";
    case experts::PartKind::kGateScale: return "gate_scale";
    case experts::PartKind::kUpScale: return "up_scale";
    case experts::PartKind::kDownScale: return "down_scale";
  }
  return "";
}

Report make_report(const gguf::Model& model) {
  Report report;
  report.model = &model;
  // An unusable name is what check_runs complains about.
  if (const auto name = model.string_or("general.architecture", ""); name.ok()) report.architecture = *name;
  for (const gguf::TensorInfo& tensor : model.tensors()) add_totals(tensor, report);
  std::stable_sort(report.types.begin(), report.types.end(),
                   [](const TypeTotal& a, const TypeTotal& b) { return a.bytes > b.bytes; });
  const auto layout = read_layout(model, report.architecture);
  if (layout.ok()) report.experts = describe(*layout);
  report.draft = find_draft_blocks(model, report.architecture);
  report.runs = check_runs(model);
  return report;
}

}  // namespace strata::cli
