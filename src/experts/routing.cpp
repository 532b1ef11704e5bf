#include "experts/routing.h"

#include "base/format.h"

namespace strata::experts {

RoutedModel RoutedModel::of(const gguf::Model& model, const ExpertLayout& layout) {
  RoutedModel out;
  for (const char* key : {"general.name", "general.architecture"}) {
    const gguf::Value* value = model.find(key);
    const Result<std::string_view> text = value == nullptr ? std::string_view() : value->as_string();
    if (text.ok() && !text->empty()) {
      out.name = printable(*text, kMaxRoutedNameBytes / 2);
      break;
    }
  }
  out.n_layers = static_cast<int32_t>(layout.layers().size());
  for (const LayerLayout& layer : layout.layers()) out.n_experts = std::max(out.n_experts, layer.n_experts);
  return out;
}

std::string RoutedModel::text() const {
  return format("{}, {} layers of {} experts", name.empty() ? "a model without a name" : printable(name), n_layers,
                n_experts);
}

Status check_routed_model(const RoutedModel& model, const std::string& origin) {
  if (model.n_layers >= 1 && model.n_layers <= kMaxRoutedLayers && model.n_experts >= 1 &&
      model.n_experts <= kMaxRoutedExperts && int64_t{model.n_layers} * model.n_experts <= kMaxRoutedKeys &&
      model.name.size() <= kMaxRoutedNameBytes) {
    return {};
  }
  return Error{ErrorCode::kBadInput,
               format("{}: {} layers of {} experts are not what a model has; at most {} layers, {} experts each and {} "
                      "in all are possible",
                      printable(origin), model.n_layers, model.n_experts, kMaxRoutedLayers, kMaxRoutedExperts,
                      kMaxRoutedKeys)};
}

Status check_same_model(const RoutedModel& found, const RoutedModel& wanted, const std::string& origin) {
  if (found == wanted) return {};
  return Error{ErrorCode::kBadInput, format("{}: it is about another model ({}) than the one here ({}); record it anew "
                                            "with strata profile record",
                                            printable(origin), found.text(), wanted.text())};
}

}  // namespace strata::experts
