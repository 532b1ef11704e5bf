// The report for people.
#include <algorithm>

#include "base/format.h"
#include "cli/inspect/report.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr uint64_t kShownElements = 4;
constexpr size_t kShownTextBytes = 60;

std::string quoted(std::string_view text) { return "\"" + printable(text, kShownTextBytes) + "\""; }

std::string element_text(const gguf::Value& value, uint64_t i) {
  switch (value.element_type()) {
    case gguf::ValueType::kString: {
      const auto text = value.as_string(i);
      return text.ok() ? quoted(*text) : "?";
    }
    case gguf::ValueType::kBool: {
      const auto on = value.as_bool(i);
      return !on.ok() ? "?" : *on ? "true" : "false";
    }
    case gguf::ValueType::kFloat32: {
      const auto number = value.as_float(i);
      return number.ok() ? format("{}", static_cast<float>(*number)) : "?";
    }
    case gguf::ValueType::kFloat64: {
      const auto number = value.as_float(i);
      return number.ok() ? format("{}", *number) : "?";
    }
    case gguf::ValueType::kUint64: {
      const auto number = value.as_uint(i);
      return number.ok() ? format("{}", *number) : "?";
    }
    default: {
      const auto number = value.as_int(i);
      return number.ok() ? format("{}", *number) : "?";
    }
  }
}

std::string value_text(const gguf::Value& value) {
  if (!value.is_array()) return element_text(value, 0);
  std::string text = format("{}[{}]", gguf::value_type_name(value.element_type()), value.count());
  // What an array of arrays holds is not shown.
  if (value.element_type() == gguf::ValueType::kArray) return text;
  const uint64_t shown = std::min(value.count(), kShownElements);
  for (uint64_t i = 0; i < shown; i++) text += (i == 0 ? " " : ", ") + element_text(value, i);
  return shown < value.count() ? text + ", ..." : text;
}

std::string files_text(const Report& report) {
  std::string text;
  for (const gguf::Shard& shard : report.model->shards()) {
    text += format("file          {}, {}, GGUF version {}\n", path_text(shard.path), format_bytes(shard.file_bytes),
                   shard.version);
  }
  return text;
}

std::string experts_text(const Report& report) {
  if (report.experts.empty()) return "";
  std::string text = "\nexperts\n";
  for (const ExpertLayers& layers : report.experts) {
    const bool single = layers.first_layer == layers.last_layer;
    text += single ? format("  layer {}", layers.first_layer)
                   : format("  layers {} to {}", layers.first_layer, layers.last_layer);
    text += format(": {} of {} each:", layers.n_experts, format_bytes(layers.bytes));
    for (const ExpertPartReport& part : layers.parts) {
      text += format("{}{} {}", &part == &layers.parts.front() ? " " : ", ", part_name(part.kind),
                     quant::info(part.type).name);
    }
    text += '\n';
  }
  return text;
}

std::string draft_text(const DraftBlocks& draft) {
  if (draft.n_layers == 0) return "";
  const int last = draft.first_layer + draft.n_layers - 1;
  const std::string layers = draft.n_layers == 1 ? format("layer {}", last)
                                                 : format("layers {} to {}", draft.first_layer, last);
  return format("\ndraft blocks (MTP), not used\n  {}: {} tensors, {}\n", layers, draft.n_tensors,
                format_bytes(draft.bytes));
}

}  // namespace

std::string report_text(const Report& report) {
  std::string text = files_text(report);
  text += format("architecture  {}\n", report.architecture.empty() ? "unknown" : printable(report.architecture));
  text += format("parameters    {}\n", report.n_parameters);
  text += format("runs here     {}\n",
                 report.runs.ok() ? "yes" : "no: " + printable(report.runs.error().message, 1000));
  text += format("\ntensors       {}, {}\n", report.model->tensors().size(), format_bytes(report.tensor_bytes));
  for (const TypeTotal& total : report.types) {
    text += format("  {:<8} {:>6}  {}\n", quant::info(total.type).name, total.n_tensors, format_bytes(total.bytes));
  }
  text += experts_text(report);
  text += draft_text(report.draft);
  text += "\nmetadata\n";
  for (const auto& [key, value] : report.model->entries()) {
    text += format("  {} = {}\n", printable(key), value_text(value));
  }
  return text;
}

}  // namespace strata::cli
