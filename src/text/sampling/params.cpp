#include "text/sampling/params.h"

#include <cmath>

#include "base/format.h"

namespace strata::text {
namespace {

Error not_allowed(const char* name, double value, const char* allowed) {
  return {ErrorCode::kBadInput, format("sampling parameter {} is {}; it must be {}", name, value, allowed)};
}

Status check_finite(const SamplerParams& p) {
  const struct { const char* name; float value; } numbers[] = {
      {"temp", p.temp},
      {"top_p", p.top_p},
      {"min_p", p.min_p},
      {"typical_p", p.typical_p},
      {"top_n_sigma", p.top_n_sigma},
      {"xtc_probability", p.xtc_probability},
      {"xtc_threshold", p.xtc_threshold},
      {"dynatemp_range", p.dynatemp_range},
      {"dynatemp_exponent", p.dynatemp_exponent},
      {"repeat_penalty", p.repeat_penalty},
      {"frequency_penalty", p.frequency_penalty},
      {"presence_penalty", p.presence_penalty},
      {"dry_multiplier", p.dry_multiplier},
      {"dry_base", p.dry_base},
      {"mirostat_tau", p.mirostat_tau},
      {"mirostat_eta", p.mirostat_eta},
      {"adaptive_target", p.adaptive_target},
      {"adaptive_decay", p.adaptive_decay},
  };
  for (const auto& [name, value] : numbers) {
    if (!std::isfinite(value)) return not_allowed(name, static_cast<double>(value), "a finite number");
  }
  return {};
}

Status check_ranges(const SamplerParams& p) {
  const struct { const char* name; int32_t value; int32_t least; const char* allowed; } counts[] = {
      {"min_keep", p.min_keep, 0, "0 or more"},
      {"dry_allowed_length", p.dry_allowed_length, 0, "0 or more"},
      {"repeat_last_n", p.repeat_last_n, -1, "-1 (all tokens) or more"},
      {"dry_penalty_last_n", p.dry_penalty_last_n, -1, "-1 (all tokens) or more"},
  };
  for (const auto& [name, value, least, allowed] : counts) {
    if (value < least) return not_allowed(name, value, allowed);
  }
  if (!(p.repeat_penalty > 0)) return not_allowed("repeat_penalty", static_cast<double>(p.repeat_penalty), "above 0");
  if (p.mirostat < 0 || p.mirostat > 2) return not_allowed("mirostat", p.mirostat, "0, 1 or 2");
  if (p.adaptive_target > 1) {
    return not_allowed("adaptive_target", static_cast<double>(p.adaptive_target), "1 at most");
  }
  if (p.adaptive_decay < 0 || p.adaptive_decay > 0.99f) {
    return not_allowed("adaptive_decay", static_cast<double>(p.adaptive_decay), "from 0 to 0.99");
  }
  return {};
}

Status check_bias(const SamplerParams& params, int32_t n_vocab) {
  for (const LogitBias& entry : params.logit_bias) {
    if (entry.id < 0 || entry.id >= n_vocab) {
      return Error{ErrorCode::kBadInput,
                   format("logit bias of token {}: the vocabulary has the tokens 0 to {}", entry.id, n_vocab - 1)};
    }
    const bool forbids = std::isinf(entry.bias) && entry.bias < 0;
    if (!std::isfinite(entry.bias) && !forbids) {
      return Error{ErrorCode::kBadInput, format("logit bias of token {} is {}; it must be a finite number or -infinity",
                                                entry.id, static_cast<double>(entry.bias))};
    }
  }
  return {};
}

Status check_order(const SamplerParams& params) {
  uint32_t seen = 0;
  for (const StageKind kind : params.order) {
    const uint32_t bit = 1u << static_cast<uint32_t>(kind);
    if ((seen & bit) != 0) return Error{ErrorCode::kBadInput, "a sampling stage comes twice in the order of stages"};
    seen |= bit;
  }
  return {};
}

}  // namespace

Status check_sampler_params(const SamplerParams& params, int32_t n_vocab) {
  RETURN_IF_ERROR(check_finite(params));
  RETURN_IF_ERROR(check_ranges(params));
  RETURN_IF_ERROR(check_bias(params, n_vocab));
  return check_order(params);
}

}  // namespace strata::text
