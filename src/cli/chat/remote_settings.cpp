#include "cli/chat/remote_settings.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/sampling.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

// As far as OpenAI's API goes, and with it servers.
constexpr float kMostBias = 100;

struct RemoteField {
  Key key;
  const char* field;
};

constexpr RemoteField kNumbers[] = {{Key::kTemp, "temperature"},
                {Key::kTopP, "top_p"},
                {Key::kTopK, "top_k"},
                {Key::kMinP, "min_p"},
                {Key::kTypical, "typical_p"},
                {Key::kTopNSigma, "top_n_sigma"},
                {Key::kXtcProbability, "xtc_probability"},
                {Key::kXtcThreshold, "xtc_threshold"},
                {Key::kMinKeep, "min_keep"},
                {Key::kDynatempRange, "dynatemp_range"},
                {Key::kDynatempExp, "dynatemp_exponent"},
                {Key::kRepeatLastN, "repeat_last_n"},
                {Key::kRepeatPenalty, "repeat_penalty"},
                {Key::kPresencePenalty, "presence_penalty"},
                {Key::kFrequencyPenalty, "frequency_penalty"},
                {Key::kDryMultiplier, "dry_multiplier"},
                {Key::kDryBase, "dry_base"},
                {Key::kDryAllowedLength, "dry_allowed_length"},
                {Key::kDryPenaltyLastN, "dry_penalty_last_n"},
                {Key::kMirostat, "mirostat"},
                {Key::kMirostatLr, "mirostat_eta"},
                {Key::kMirostatEnt, "mirostat_tau"},
                {Key::kAdaptiveTarget, "adaptive_target"},
                {Key::kAdaptiveDecay, "adaptive_decay"},
                {Key::kSeed, "seed"},
                {Key::kPredict, "max_tokens"}};

// That are no numbers.
constexpr RemoteField kSamplers = {Key::kSamplers, "samplers"};
constexpr RemoteField kLogitBias = {Key::kLogitBias, "logit_bias"};
constexpr RemoteField kIgnoreEos = {Key::kIgnoreEos, "ignore_eos"};
constexpr RemoteField kBreakers = {Key::kDrySequenceBreaker, "dry_sequence_breakers"};

// The others that mean something to run --connect.
constexpr Key kOthers[] = {Key::kConnect, Key::kApiKey,    Key::kPrompt,  Key::kRaw,
                           Key::kChat,    Key::kReasoning, Key::kLogLevel};

// The first field that the user's settings are sent in of which `is_it` is true; null for none.
template <class IsIt>
const RemoteField* find_field(const IsIt& is_it) {
  const auto number = std::find_if(std::begin(kNumbers), std::end(kNumbers), is_it);
  if (number != std::end(kNumbers)) return number;
  for (const RemoteField* field : {&kSamplers, &kLogitBias, &kIgnoreEos, &kBreakers}) {
    if (is_it(*field)) return field;
  }
  return nullptr;
}

bool counts_remotely(Key key) {
  return std::find(std::begin(kOthers), std::end(kOthers), key) != std::end(kOthers) ||
         find_field([&](const RemoteField& field) { return field.key == key; }) != nullptr;
}

Status add_biases(const Settings& settings, Json& body) {
  ASSIGN_OR_RETURN(const auto given, parse_logit_bias(settings.text(Key::kLogitBias)));
  std::map<int32_t, float> sums;
  for (const text::LogitBias& bias : given) sums[bias.id] += bias.bias;
  for (const auto& [id, bias] : sums) {
    if (!(bias >= -kMostBias && bias <= kMostBias)) {
      return Error{ErrorCode::kBadInput,
                   format("--logit-bias: token {} gets {}, but a server takes -{} to {}; -{} all but forbids a token",
                          id, bias, kMostBias, kMostBias, kMostBias)};
    }
    body[kLogitBias.field][std::to_string(id)] = bias;
  }
  return {};
}

}  // namespace

Status check_remote_flags(const Settings& settings) {
  for (const Setting& row : all_settings()) {
    if (!settings.is_set(row.key) || counts_remotely(row.key)) continue;
    if (row.key == Key::kModel) {
      return Error{ErrorCode::kBadInput, "--connect and a model exclude each other: the server has its own"};
    }
    return Error{ErrorCode::kBadInput,
                 format("--{} means nothing with --connect: it is for where the model runs; give it to the server",
                        row.name)};
  }
  return {};
}

Status add_remote_settings(const Settings& settings, Json& body) {
  for (const auto& [key, field] : kNumbers) {
    if (!settings.is_set(key) || settings.is_auto(key)) continue;
    if (setting(key).type == SettingType::kInt) {
      body[field] = settings.integer(key);
    } else {
      body[field] = settings.number(key);
    }
  }
  if (settings.is_set(Key::kIgnoreEos)) body[kIgnoreEos.field] = settings.on(Key::kIgnoreEos);
  if (settings.is_set(Key::kSamplers)) body[kSamplers.field] = settings.text(Key::kSamplers);
  if (settings.is_set(Key::kDrySequenceBreaker)) {
    const auto breakers = parse_sequence_breakers(settings.text(Key::kDrySequenceBreaker));
    if (!breakers.ok()) {
      return Error{breakers.error().code, format("--dry-sequence-breaker: {}", breakers.error().message)};
    }
    body[kBreakers.field] = *breakers;
  }
  return add_biases(settings, body);
}

std::string remote_flag(const Settings& settings, std::string_view field) {
  field = field.substr(0, field.find_first_of(".["));
  const RemoteField* found = find_field([&](const RemoteField& each) { return field == each.field; });
  return found == nullptr || !settings.is_set(found->key) ? "" : format("--{}", setting(found->key).name);
}

}  // namespace strata::cli
