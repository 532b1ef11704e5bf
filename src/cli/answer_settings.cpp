#include "cli/answer_settings.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "cli/sampling.h"

namespace strata::cli {

uint32_t seed_of(const Settings& settings) {
  if (!settings.is_auto(Key::kSeed)) return static_cast<uint32_t>(settings.integer(Key::kSeed));
  // Another one for every process, and within what --seed takes, so that an answer can be had again.
  const uint64_t time = static_cast<uint64_t>(real_clock().now_ns());
  return static_cast<uint32_t>(Random(time ^ (static_cast<uint64_t>(::getpid()) << 40)).next() >> 32);
}

Result<engine::RequestParams> request_params(const Settings& settings, const gguf::Model& model,
                                             const text::Tokenizer& tokenizer, uint32_t seed,
                                             std::optional<int64_t> auto_predict) {
  engine::RequestParams params;
  ASSIGN_OR_RETURN(params.sampling, sampler_params(settings, model, tokenizer, seed));
  params.max_tokens = auto_predict;
  if (!settings.is_auto(Key::kPredict)) params.max_tokens = settings.integer(Key::kPredict);
  params.repeat_stop_tokens = settings.integer(Key::kRepeatStopTokens);
  return params;
}

std::optional<bool> thinking_of(const Settings& settings) {
  const std::string& choice = settings.text(Key::kReasoning);
  return choice == "auto" ? std::nullopt : std::optional(choice == "on");
}

}  // namespace strata::cli
