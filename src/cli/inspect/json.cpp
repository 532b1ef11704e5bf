// The report for programs.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/inspect/report.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kShownElements = 8;

// null for what JSON has no word for: numbers that are not finite, arrays in arrays.
Json element_json(const gguf::Value& value, uint64_t i) {
  switch (value.element_type()) {
    case gguf::ValueType::kString: {
      const auto text = value.as_string(i);
      return text.ok() ? Json(std::string(*text)) : Json();
    }
    case gguf::ValueType::kBool: {
      const auto on = value.as_bool(i);
      return on.ok() ? Json(*on) : Json();
    }
    case gguf::ValueType::kFloat32:
    case gguf::ValueType::kFloat64: {
      const auto number = value.as_float(i);
      return number.ok() ? Json(*number) : Json();
    }
    case gguf::ValueType::kUint64: {
      const auto number = value.as_uint(i);
      return number.ok() ? Json(*number) : Json();
    }
    default: {
      const auto number = value.as_int(i);
      return number.ok() ? Json(*number) : Json();
    }
  }
}

// Arrays are abbreviated: a vocabulary has a hundred thousand entries.
Json value_json(const gguf::Value& value) {
  if (!value.is_array()) return element_json(value, 0);
  Json first = Json::array();
  const uint64_t shown = std::min(value.count(), kShownElements);
  for (uint64_t i = 0; i < shown; i++) first.push_back(element_json(value, i));
  return {{"type", gguf::value_type_name(value.element_type())}, {"count", value.count()}, {"first", std::move(first)}};
}

Json files_json(const Report& report) {
  Json files = Json::array();
  for (const gguf::Shard& shard : report.model->shards()) {
    files.push_back({{"path", shard.path}, {"bytes", shard.file_bytes}, {"version", shard.version},
                     {"alignment", shard.alignment}});
  }
  return files;
}

Json types_json(const Report& report) {
  Json types = Json::array();
  for (const TypeTotal& total : report.types) {
    types.push_back({{"type", quant::info(total.type).name}, {"tensors", total.n_tensors}, {"bytes", total.bytes}});
  }
  return types;
}

// One entry per layer that has experts.
Json experts_json(const Report& report) {
  Json all = Json::array();
  for (const ExpertLayers& layers : report.experts) {
    Json parts = Json::object();
    for (const ExpertPartReport& part : layers.parts) parts[part_name(part.kind)] = quant::info(part.type).name;
    for (int layer = layers.first_layer; layer <= layers.last_layer; layer++) {
      all.push_back(
          {{"layer", layer}, {"experts", layers.n_experts}, {"expert_bytes", layers.bytes}, {"parts", parts}});
    }
  }
  return all;
}

Json draft_json(const DraftBlocks& draft) {
  if (draft.n_layers == 0) return {};
  return {{"first_layer", draft.first_layer}, {"layers", draft.n_layers}, {"tensors", draft.n_tensors},
          {"bytes", draft.bytes}};
}

}  // namespace

std::string report_json(const Report& report) {
  Json metadata = Json::object();
  for (const auto& [key, value] : report.model->entries()) metadata[key] = value_json(value);
  const Json json = {
      {"files", files_json(report)},
      {"architecture", report.architecture.empty() ? Json() : Json(report.architecture)},
      {"parameters", report.n_parameters},
      {"runs", report.runs.ok()},
      {"reason", report.runs.ok() ? Json() : Json(report.runs.error().message)},
      {"tensors", report.model->tensors().size()},
      {"tensor_bytes", report.tensor_bytes},
      {"types", types_json(report)},
      {"experts", experts_json(report)},
      {"draft", draft_json(report.draft)},
      {"metadata", std::move(metadata)},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata::cli
