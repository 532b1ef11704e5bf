#include "server/api/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "text/sampling/dry_breakers.h"
#include "text/stop.h"

namespace strata::server {
namespace {

constexpr double kMostFloat = 1e6;

constexpr int64_t kMostInt = std::numeric_limits<int32_t>::max();

struct NumberField {
  const char* key;
  double least, most;
  float text::SamplerParams::*value;
};

constexpr NumberField kNumbers[] = {
    {"temperature", 0, 2, &text::SamplerParams::temp},
    {"top_p", 0, 1, &text::SamplerParams::top_p},
    {"min_p", 0, 1, &text::SamplerParams::min_p},
    {"typical_p", 0, 1, &text::SamplerParams::typical_p},
    {"top_n_sigma", -1, kMostFloat, &text::SamplerParams::top_n_sigma},
    {"xtc_probability", 0, 1, &text::SamplerParams::xtc_probability},
    {"xtc_threshold", 0, 1, &text::SamplerParams::xtc_threshold},
    {"dynatemp_range", 0, 100, &text::SamplerParams::dynatemp_range},
    {"dynatemp_exponent", 0, 100, &text::SamplerParams::dynatemp_exponent},
    {"repeat_penalty", 0.01, kMostFloat, &text::SamplerParams::repeat_penalty},
    {"repetition_penalty", 0.01, kMostFloat, &text::SamplerParams::repeat_penalty},
    {"frequency_penalty", -2, 2, &text::SamplerParams::frequency_penalty},
    {"presence_penalty", -2, 2, &text::SamplerParams::presence_penalty},
    {"dry_multiplier", 0, 100, &text::SamplerParams::dry_multiplier},
    {"dry_base", 0, 100, &text::SamplerParams::dry_base},
    {"mirostat_tau", 0, 100, &text::SamplerParams::mirostat_tau},
    {"mirostat_eta", 0, 100, &text::SamplerParams::mirostat_eta},
    {"adaptive_target", -1, 1, &text::SamplerParams::adaptive_target},
    {"adaptive_decay", 0, 0.99, &text::SamplerParams::adaptive_decay},
};

struct IntegerField {
  const char* key;
  int64_t least, most;
  int32_t text::SamplerParams::*value;
};

constexpr IntegerField kIntegers[] = {
    // Without limit by 0, as everywhere, and by -1, as some clients write it.
    {"top_k", -1, kMostInt, &text::SamplerParams::top_k},
    {"min_keep", 0, kMostInt, &text::SamplerParams::min_keep},
    {"repeat_last_n", -1, kMostInt, &text::SamplerParams::repeat_last_n},
    {"dry_allowed_length", 0, kMostInt, &text::SamplerParams::dry_allowed_length},
    {"dry_penalty_last_n", -1, kMostInt, &text::SamplerParams::dry_penalty_last_n},
    {"mirostat", 0, 2, &text::SamplerParams::mirostat},
};

// A value that switches the field off is what happens anyway.
struct Refused {
  const char* key;
  const char* why;
};

constexpr const char* kNoStructure = "structured output is not implemented yet; leave it out and check the answer";
constexpr const char* kNoShift = "a context is never shifted or cut here; an answer ends where the context is full";
constexpr Refused kRefused[] = {
    {"grammar", kNoStructure},
    {"json_schema", kNoStructure},
    {"guided_json", kNoStructure},
    {"guided_regex", kNoStructure},
    {"guided_choice", kNoStructure},
    {"guided_grammar", kNoStructure},
    {"structured_outputs", kNoStructure},
    {"n_discard", kNoShift},
    {"n_keep", kNoShift},
    {"context_shift", kNoShift},
    {"functions", "functions are an old form of tools; use \"tools\""},
    {"function_call", "function calls are an old form of tools; use \"tools\" and \"tool_choice\""},
    {"audio", "answers are text only"},
    {"web_search_options", "there is no web search; offer a tool that does it"},
    {"suffix", "text can't be filled in between a prompt and a suffix"},
    {"truncate_prompt_tokens", kNoShift},
    {"n_predict", "the limit of an answer is called max_tokens here"},
    {"min_tokens", "an answer has no lower limit; ignore_eos and max_tokens give one of a certain length"},
    {"stop_token_ids", "answers are stopped by texts; use \"stop\""},
    {"bad_words", "tokens are kept out by their ids; use \"logit_bias\""},
    {"allowed_token_ids", "tokens are kept out by their ids; use \"logit_bias\""},
    {"use_beam_search", "answers are sampled"},
    {"prompt_logprobs", "only tokens of the answer have log-probabilities"},
    {"n_probs", "log-probabilities are asked for with \"logprobs\""},
    {"continue_final_message", "a chat's answer is a message of its own; /v1/messages goes on from an assistant's"},
    {"chat_template", "the template is the server's; start it with --chat-template"},
    {"lora", "there are no adapters"},
    {"speculative.n_max", "nothing is drafted"},
};

// false, 0, "", [] and {}.
bool switches_off(const Json& value) {
  return value == false || (value.is_number() && value == 0) || (value.is_string() && value == "") ||
         (value.is_structured() && value.empty());
}

ApiResult<std::vector<text::LogitBias>> read_bias(const Fields& fields, const ServedModel& model) {
  std::vector<text::LogitBias> biases;
  const ApiResult<const Json*> object = fields.object("logit_bias");
  if (!object.ok()) return object.error();
  if (*object == nullptr) return biases;
  const Fields entries(**object, fields.name("logit_bias"));
  for (const auto& [key, value] : (*object)->items()) {
    int32_t id = -1;
    const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool known = failed == std::errc() && end == key.data() + key.size() && id >= 0;
    if (!known || id >= model.tokenizer->vocab_size()) {
      return invalid_request(format("logit_bias has '{}', but keys must be token ids from 0 to {}", printable(key),
                                    model.tokenizer->vocab_size() - 1),
                             "logit_bias");
    }
    // Looking every one up by its key would take the square of their number.
    const double bias = value.is_number() ? value.get<double>() : std::numeric_limits<double>::infinity();
    if (std::abs(bias) <= 100) {
      biases.push_back({id, static_cast<float>(bias)});
    } else {
      const auto why = entries.number(key, -100, 100);  // null counts as absent
      if (!why.ok()) return why.error();
    }
  }
  return biases;
}

// "samplers": the stages in their order, as one text or as a list of names.
ApiStatus read_order(const Fields& fields, text::SamplerParams& sampling) {
  const Json* given = fields.find("samplers");
  if (given == nullptr) return {};
  std::string names;
  if (given->is_string()) {
    names = *given;
  } else if (given->is_array()) {
    for (size_t i = 0; i < given->size(); ++i) {
      if (!(*given)[i].is_string()) return fields.wrong_type("samplers", "a string or a list of names");
      names += (i > 0 ? ";" : "") + (*given)[i].get<std::string>();
    }
  } else {
    return fields.wrong_type("samplers", "a string or a list of names");
  }
  auto order = text::parse_stage_order(names);
  if (!order.ok()) return invalid_request(format("samplers: {}", order.error().message), "samplers");
  sampling.order = std::move(order).value();
  return {};
}

// "dry_sequence_breakers": what ends a repetition; what usually does where it is left out.
ApiStatus read_dry_breakers(const Fields& fields, const ServedModel& model, text::SamplerParams& sampling) {
  ASSIGN_OR_RETURN(const Json* given, fields.array("dry_sequence_breakers"));
  std::vector<std::string> texts = text::default_dry_breakers();
  if (given != nullptr) texts.clear();
  for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
    if (!(*given)[i].is_string()) {
      const std::string name = fields.name("dry_sequence_breakers", i);
      return invalid_request(format("{} must be a string", name), name, "invalid_type");
    }
    texts.push_back((*given)[i]);
  }
  const bool has_own = given == nullptr && sampling.dry_breakers != nullptr;
  if (sampling.dry_multiplier == 0 || has_own) return {};  // finding them walks over the vocabulary
  auto breakers = text::DryBreakers::create(*model.tokenizer, texts);
  if (!breakers.ok()) return invalid_request(breakers.error().message, "dry_sequence_breakers");
  sampling.dry_breakers = std::move(breakers).value();
  return {};
}

// Any 64-bit number is a seed; generators take 32 bits.
uint32_t folded(uint64_t seed) { return static_cast<uint32_t>(seed ^ (seed >> 32)); }

}  // namespace

ApiResult<engine::RequestParams> read_sampling(const Fields& fields, const ServedModel& model, uint64_t nonce) {
  engine::RequestParams params;
  params.sampling = model.sampling;
  params.repeat_stop_tokens = model.repeat_stop_tokens;
  for (const NumberField& field : kNumbers) {
    ASSIGN_OR_RETURN(const std::optional<double> number, fields.number(field.key, field.least, field.most));
    if (number) params.sampling.*field.value = static_cast<float>(*number);
  }
  for (const IntegerField& field : kIntegers) {
    ASSIGN_OR_RETURN(const auto integer, fields.integer(field.key, field.least, field.most));
    if (integer) params.sampling.*field.value = static_cast<int32_t>(*integer);
  }
  RETURN_IF_ERROR(read_order(fields, params.sampling));
  RETURN_IF_ERROR(read_dry_breakers(fields, model, params.sampling));
  constexpr int64_t kLeastSeed = std::numeric_limits<int64_t>::min(), kMostSeed = std::numeric_limits<int64_t>::max();
  ASSIGN_OR_RETURN(const auto seed, fields.integer("seed", kLeastSeed, kMostSeed));
  params.sampling.seed = folded(seed ? static_cast<uint64_t>(*seed) : nonce);
  ASSIGN_OR_RETURN(const auto ignore_eos, fields.boolean("ignore_eos"));
  params.ignore_eos = ignore_eos.value_or(false);
  ASSIGN_OR_RETURN(const auto biases, read_bias(fields, model));
  params.sampling.logit_bias.insert(params.sampling.logit_bias.end(), biases.begin(), biases.end());
  const Status fits = text::check_sampler_params(params.sampling, model.tokenizer->vocab_size());
  if (!fits.ok()) return from_engine(fits.error());
  return params;
}

ApiResult<std::vector<std::string>> read_stops(const Fields& fields, std::string_view key) {
  std::vector<std::string> stops;
  const Json* value = fields.find(key);
  if (value == nullptr) return stops;
  const Json list = value->is_string() ? Json::array({*value}) : *value;
  if (!list.is_array()) return fields.wrong_type(key, "a string or an array of strings");
  if (list.size() > text::kMaxStopStrings) {
    return invalid_request(format("{} has {} entries, but at most {} are allowed", fields.name(key), list.size(),
                                  text::kMaxStopStrings),
                           fields.name(key));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = value->is_string() ? fields.name(key) : fields.name(key, i);
    if (!list[i].is_string()) return invalid_request(format("{} must be a string", name), name, "invalid_type");
    const std::string& stop = list[i].get_ref<const std::string&>();
    if (stop.size() > text::kMaxStopBytes) {
      return invalid_request(format("{} has {} bytes, but at most {} are allowed", name, stop.size(),
                                    text::kMaxStopBytes),
                             name);
    }
    if (!stop.empty()) stops.push_back(stop);
  }
  return stops;
}

ApiStatus refuse_unknown_powers(const Fields& fields) {
  for (const Refused& refused : kRefused) {
    const Json* value = fields.find(refused.key);
    if (value != nullptr && !switches_off(*value)) {
      return unsupported(format("{}: {}", fields.name(refused.key), refused.why), fields.name(refused.key));
    }
  }
  return {};
}

std::vector<GenerationJob> make_jobs(std::vector<int32_t> prompt, const engine::RequestParams& params, int64_t count,
                                     const ServedModel& model) {
  const int64_t room = std::max<int64_t>(model.context - static_cast<int64_t>(prompt.size()), 1);
  std::vector<GenerationJob> jobs(static_cast<size_t>(count), {std::move(prompt), params});
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].params.sampling.seed += static_cast<uint32_t>(i);
    jobs[i].params.max_tokens = std::min(params.max_tokens.value_or(room), room);
  }
  return jobs;
}

ApiStatus check_room(size_t n_prompt, const ServedModel& model, std::string_view param) {
  if (n_prompt <= static_cast<size_t>(model.context)) return {};
  return invalid_request(format("prompt is too long: {} tokens > {} maximum. This model's maximum context length is {} "
                                "tokens, but the prompt has {}; shorten it, or start the server with a larger --ctx",
                                n_prompt, model.context, model.context, n_prompt),
                         std::string(param), "context_length_exceeded");
}

}  // namespace strata::server
