// strata run: continues a text.
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "base/random.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/model_choice.h"
#include "cli/sampling.h"
#include "cli/speed.h"
#include "cli/streams.h"
#include "engine/generate.h"
#include "text/detokenizer.h"
#include "text/repeat_guard.h"

namespace strata::cli {
namespace {

constexpr int64_t kAutoPredict = 512;

Status take_words(Words words, Settings& settings) {
  if (words.size() > 2) {
    return Error{ErrorCode::kBadInput,
                 format("run takes a model and a prompt, but {} arguments were given; quote a prompt of several words",
                        words.size())};
  }
  if (words.size() == 1 && !names_model(words[0])) return give(settings, Key::kPrompt, words[0]);
  if (words.empty()) return {};
  if (!real_file_system().exists(words[0])) {
    const char* rule = words.size() == 2
                           ? "of two arguments, the first is the model"
                           : "an argument that ends in .gguf or has a slash is the model; give such a prompt with -p";
    return Error{ErrorCode::kNotFound, format("no such file: {} ({})", path_text(words[0]), rule)};
  }
  RETURN_IF_ERROR(give(settings, Key::kModel, words[0]));
  return words.size() == 2 ? give(settings, Key::kPrompt, words[1]) : Status();
}

Status check_prompt_source(const Settings& settings) {
  if (settings.is_set(Key::kPrompt) || !stdin_is_terminal()) return {};
  return Error{ErrorCode::kBadInput,
               "no prompt; write strata run [MODEL] \"Once upon a time\", or see strata run --help"};
}

Result<std::string> read_prompt(const Settings& settings) {
  if (settings.is_set(Key::kPrompt)) return settings.text(Key::kPrompt);
  return read_stdin(kMaxTextBytes);
}

uint32_t seed_of(const Settings& settings) {
  if (!settings.is_auto(Key::kSeed)) return static_cast<uint32_t>(settings.integer(Key::kSeed));
  // Another one for every process, and within what --seed takes, so that an answer can be had again.
  const uint64_t time = static_cast<uint64_t>(real_clock().now_ns());
  return static_cast<uint32_t>(Random(time ^ (static_cast<uint64_t>(::getpid()) << 40)).next() >> 32);
}

Result<std::vector<int32_t>> encode_prompt(const text::Tokenizer& tokenizer, const std::string& prompt) {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                   tokenizer.encode(prompt, {.parse_special = true, .add_bos = tokenizer.add_bos()}));
  if (ids.empty()) {
    return Error{ErrorCode::kBadInput,
                 "the prompt is empty, and this model has no token for the beginning of a text; give a prompt with -p"};
  }
  return ids;
}

// Says why an answer is not as long as it was to be; kCancelled when the user stopped it.
Status report_stop(const engine::GenerateResult& result, int64_t context) {
  if (result.stop == engine::StopReason::kContextFull) {
    write_stderr(format("strata: the context of {} tokens is full; --ctx makes it larger\n", context));
  }
  if (result.stop == engine::StopReason::kCancelled) {
    return Error{ErrorCode::kCancelled, format("interrupted after {} tokens", result.n_tokens)};
  }
  return {};
}

struct AnswerLimits {
  int64_t max_tokens;
  int64_t repeat_stop_tokens;  // the same token this often in a row ends the answer; 0 never
};

// The answer to stdout, token by token. On a terminal the prompt comes before it and a line end after it.
Result<engine::GenerateResult> answer(engine::Engine& engine, const text::Tokenizer& tokenizer, text::Sampler& sampler,
                                      const std::string& prompt, std::span<const int32_t> ids, AnswerLimits limits) {
  const bool terminal = stdout_is_terminal();
  ASSIGN_OR_RETURN(model::SequenceState sequence, engine.make_sequence());
  if (terminal) RETURN_IF_ERROR(write_stdout(prompt));
  text::StreamDecoder decoder(text::InvalidBytes::kReplace);
  const InterruptRequest interrupt;
  engine::GenerateOptions options{.max_tokens = limits.max_tokens, .cancel = &interrupt.requested()};
  for (const int32_t id : ids) sampler.accept(id);
  text::RepeatGuard guard(limits.repeat_stop_tokens);
  int64_t n_tokens = 0;
  const auto publish = [&](int32_t id) -> Status {
    sampler.accept(id);
    ++n_tokens;
    if (guard.push(id)) {
      options.max_tokens = n_tokens;  // looked at after every token
      write_stderr(format("strata: the model repeats one token; the answer ends after {} in a row "
                          "(--repeat-stop-tokens)\n", limits.repeat_stop_tokens));
    }
    return write_stdout(decoder.push(tokenizer.piece(id, false)));
  };
  Result<engine::GenerateResult> result =
      engine::generate(engine, sequence, tokenizer, sampler, ids, options, publish);
  // The characters so far belong to the user even when the rest failed.
  const Status flushed = write_stdout(decoder.flush() + (terminal ? "\n" : ""));
  if (result.ok() && !flushed.ok()) return flushed.error();
  return result;
}

Status run(const Settings& settings) {
  RETURN_IF_ERROR(check_prompt_source(settings));
  ASSIGN_OR_RETURN(const engine::EngineConfig config, engine::config_from(settings, kernels::KvType::kF16));
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const std::string prompt, read_prompt(settings));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, encode_prompt(*tokenizer, prompt));
  const uint32_t seed = seed_of(settings);
  ASSIGN_OR_RETURN(const text::SamplerParams sampling, sampler_params(settings, *model, *tokenizer, seed));

  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::open(*model, config, stats));
  ASSIGN_OR_RETURN(text::Sampler sampler, text::Sampler::create(sampling, static_cast<int32_t>(engine->n_vocab())));
  const AnswerLimits limits{
      .max_tokens = settings.is_auto(Key::kPredict) ? kAutoPredict : settings.integer(Key::kPredict),
      .repeat_stop_tokens = settings.integer(Key::kRepeatStopTokens)};
  ASSIGN_OR_RETURN(const engine::GenerateResult result, answer(*engine, *tokenizer, sampler, prompt, ids, limits));
  if (settings.on(Key::kStats)) {
    write_stderr(stats.to_text() + speed_text("prompt", static_cast<int64_t>(ids.size()), result.prefill_ns) +
                 speed_text("generated", result.n_tokens, result.generate_ns) + format("seed {}\n", seed));
  }
  return report_stop(result, engine->context());
}

}  // namespace

const Command kRunCommand = {
    .name = "run",
    .arguments = "[MODEL] [PROMPT]",
    .summary = "Continue a text; an argument that exists, ends in .gguf or has a slash is the model, else the prompt",
    .scope = kScopeRun,
    .take_words = take_words,
    .run = run,
};

}  // namespace strata::cli
