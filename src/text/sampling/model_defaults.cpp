#include "text/sampling/model_defaults.h"

#include <cmath>
#include <limits>

#include "base/format.h"

namespace strata::text {
namespace {

constexpr const char* kSuppressKey = "tokenizer.ggml.suppress_tokens";

Error wrong_value(const gguf::Model& model, const char* key, const std::string& what) {
  return {ErrorCode::kBadInput, format("{}: key {} {}", model.path(), key, what)};
}

Status read_float(const gguf::Model& model, const char* key, float& value) {
  ASSIGN_OR_RETURN(const double number, model.float_or(key, static_cast<double>(value)));
  if (std::abs(number) > static_cast<double>(std::numeric_limits<float>::max())) {
    return wrong_value(model, key, format("is {}, too large for a sampling parameter", number));
  }
  value = static_cast<float>(number);
  return {};
}

Status read_int(const gguf::Model& model, const char* key, int32_t min, int32_t& value) {
  ASSIGN_OR_RETURN(const int64_t number, model.int_or(key, value, min, std::numeric_limits<int32_t>::max()));
  value = static_cast<int32_t>(number);
  return {};
}

Status read_order(const gguf::Model& model, SamplerParams& params) {
  constexpr const char* kKey = "general.sampling.sequence";
  if (model.find(kKey) == nullptr) return {};
  ASSIGN_OR_RETURN(const std::string text, model.require_string(kKey));
  Result<std::vector<StageKind>> order = parse_stage_order(text);
  if (!order.ok()) return wrong_value(model, kKey, format("can't be used: {}", order.error().message));
  params.order = std::move(order).value();
  return {};
}

Status read_suppressed(const gguf::Model& model, SamplerParams& params) {
  const gguf::Value* value = model.find(kSuppressKey);
  if (value == nullptr) return {};
  for (uint64_t i = 0; i < value->count(); ++i) {
    const Result<int64_t> id = value->as_int(i);
    if (!id.ok()) return wrong_value(model, kSuppressKey, id.error().message);
    if (*id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      return wrong_value(model, kSuppressKey, format("has {}, which is no token id", *id));
    }
    params.suppress.push_back(static_cast<int32_t>(*id));
  }
  return {};
}

}  // namespace

Result<SamplerParams> model_sampler_params(const gguf::Model& model) {
  constexpr int32_t kAny = std::numeric_limits<int32_t>::min();
  SamplerParams params;
  const struct { const char* key; float& value; } floats[] = {
      {"general.sampling.top_p", params.top_p},
      {"general.sampling.min_p", params.min_p},
      {"general.sampling.xtc_probability", params.xtc_probability},
      {"general.sampling.xtc_threshold", params.xtc_threshold},
      {"general.sampling.temp", params.temp},
      {"general.sampling.penalty_repeat", params.repeat_penalty},
      {"general.sampling.mirostat_tau", params.mirostat_tau},
      {"general.sampling.mirostat_eta", params.mirostat_eta},
  };
  for (const auto& [key, value] : floats) RETURN_IF_ERROR(read_float(model, key, value));
  RETURN_IF_ERROR(read_int(model, "general.sampling.top_k", kAny, params.top_k));
  RETURN_IF_ERROR(read_int(model, "general.sampling.penalty_last_n", -1, params.repeat_last_n));
  RETURN_IF_ERROR(read_int(model, "general.sampling.mirostat", 0, params.mirostat));
  RETURN_IF_ERROR(read_order(model, params));
  RETURN_IF_ERROR(read_suppressed(model, params));
  const Status status = check_sampler_params(params, 1);
  if (!status.ok()) {
    return Error{ErrorCode::kBadInput, format("{}: of general.sampling, {}", model.path(), status.error().message)};
  }
  return params;
}

std::vector<int32_t> end_of_generation_ids(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_end_of_generation(id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace strata::text
