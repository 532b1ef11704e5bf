#include "cli/sampling.h"

#include <charconv>
#include <optional>

#include "base/format.h"
#include "text/sampling/dry_breakers.h"
#include "text/sampling/model_defaults.h"

namespace strata::cli {
namespace {

void take_numbers(const Settings& settings, text::SamplerParams& params) {
  const struct { Key key; float& value; } numbers[] = {
      {Key::kTemp, params.temp},
      {Key::kTopP, params.top_p},
      {Key::kMinP, params.min_p},
      {Key::kTypical, params.typical_p},
      {Key::kTopNSigma, params.top_n_sigma},
      {Key::kXtcProbability, params.xtc_probability},
      {Key::kXtcThreshold, params.xtc_threshold},
      {Key::kDynatempRange, params.dynatemp_range},
      {Key::kDynatempExp, params.dynatemp_exponent},
      {Key::kRepeatPenalty, params.repeat_penalty},
      {Key::kPresencePenalty, params.presence_penalty},
      {Key::kFrequencyPenalty, params.frequency_penalty},
      {Key::kDryMultiplier, params.dry_multiplier},
      {Key::kDryBase, params.dry_base},
      {Key::kMirostatLr, params.mirostat_eta},
      {Key::kMirostatEnt, params.mirostat_tau},
      {Key::kAdaptiveTarget, params.adaptive_target},
      {Key::kAdaptiveDecay, params.adaptive_decay},
  };
  for (const auto& [key, value] : numbers) {
    if (settings.is_set(key)) value = static_cast<float>(settings.number(key));
  }
}

void take_integers(const Settings& settings, text::SamplerParams& params) {
  const struct { Key key; int32_t& value; } integers[] = {
      {Key::kTopK, params.top_k},
      {Key::kMinKeep, params.min_keep},
      {Key::kRepeatLastN, params.repeat_last_n},
      {Key::kDryAllowedLength, params.dry_allowed_length},
      {Key::kDryPenaltyLastN, params.dry_penalty_last_n},
      {Key::kMirostat, params.mirostat},
  };
  for (const auto& [key, value] : integers) {
    if (settings.is_set(key)) value = static_cast<int32_t>(settings.integer(key));
  }
}

Error wrong_flag(Key key, const Error& error) {
  return {error.code, format("--{}: {}", setting(key).name, error.message)};
}

Error wrong_bias(std::string_view entry) {
  return {ErrorCode::kBadInput,
          format("'{}' is not allowed; give token ids with what to add to their logits, as 15043+1.5,29871-inf",
                 printable(entry))};
}

std::optional<text::LogitBias> parse_bias(std::string_view entry) {
  text::LogitBias bias{};
  const char* const end = entry.data() + entry.size();
  const auto [sign, id_error] = std::from_chars(entry.data(), end, bias.id);
  if (id_error != std::errc() || bias.id < 0 || sign == end || (*sign != '+' && *sign != '-')) return std::nullopt;
  if (sign + 1 == end || sign[1] == '-') return std::nullopt;  // one sign
  const auto [rest, error] = std::from_chars(sign + 1, end, bias.bias);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (*sign == '-') bias.bias = -bias.bias;
  return bias;
}

// What stands for `letter` behind a backslash.
std::optional<char> escaped(char letter) {
  switch (letter) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '\\':
    case ',': return letter;
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::vector<text::LogitBias>> parse_logit_bias(std::string_view text) {
  std::vector<text::LogitBias> biases;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    const std::optional<text::LogitBias> bias = parse_bias(entry);
    if (!bias) return wrong_bias(entry);
    biases.push_back(*bias);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return wrong_bias(text);
  }
  return biases;
}

Result<std::vector<std::string>> parse_sequence_breakers(std::string_view text) {
  if (text.empty() || text == "none") return std::vector<std::string>();
  std::vector<std::string> breakers(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      breakers.emplace_back();
    } else if (text[i] != '\\') {
      breakers.back() += text[i];
    } else {
      const std::optional<char> byte = i + 1 < text.size() ? escaped(text[++i]) : std::nullopt;
      if (!byte) {
        return Error{ErrorCode::kBadInput,
                     format("'{}' is not allowed; a backslash is followed by n, t, r, \\ or a comma", printable(text))};
      }
      breakers.back() += *byte;
    }
  }
  return breakers;
}

Result<text::SamplerParams> sampler_params(const Settings& settings, const gguf::Model& model,
                                           const text::Tokenizer& tokenizer, uint32_t seed) {
  ASSIGN_OR_RETURN(text::SamplerParams params, text::model_sampler_params(model));
  params.seed = seed;
  take_numbers(settings, params);
  take_integers(settings, params);
  if (settings.is_set(Key::kSamplers)) {
    auto order = text::parse_stage_order(settings.text(Key::kSamplers));
    if (!order.ok()) return wrong_flag(Key::kSamplers, order.error());
    params.order = std::move(order).value();
  }
  auto biases = parse_logit_bias(settings.text(Key::kLogitBias));
  if (!biases.ok()) return wrong_flag(Key::kLogitBias, biases.error());
  params.logit_bias = std::move(biases).value();
  if (settings.on(Key::kIgnoreEos)) {
    const std::vector<int32_t> ends = text::end_of_generation_ids(tokenizer);
    params.suppress.insert(params.suppress.end(), ends.begin(), ends.end());
  }
  const auto texts = parse_sequence_breakers(settings.text(Key::kDrySequenceBreaker));
  if (!texts.ok()) return wrong_flag(Key::kDrySequenceBreaker, texts.error());
  if (params.dry_multiplier != 0) {  // finding them walks over the vocabulary
    auto breakers = text::DryBreakers::create(tokenizer, *texts);
    if (!breakers.ok()) return wrong_flag(Key::kDrySequenceBreaker, breakers.error());
    params.dry_breakers = std::move(breakers).value();
  }
  return params;
}

}  // namespace strata::cli
