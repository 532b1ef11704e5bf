#include "engine/generate.h"

#include "base/clock.h"
#include "base/format.h"

namespace strata::engine {
namespace {

bool cancelled(const GenerateOptions& options) {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

Status check_prompt(const Engine& engine, const model::SequenceState& sequence, std::span<const int32_t> prompt) {
  if (prompt.empty()) return Error{ErrorCode::kBadInput, "the prompt is empty; a model continues at least one token"};
  const int64_t room = engine.context() - sequence.n_tokens();
  if (static_cast<int64_t>(prompt.size()) > room) {
    return Error{ErrorCode::kBadInput,
                 format("the prompt has {} tokens, but the context has room for {}; shorten it or raise --ctx",
                        prompt.size(), room)};
  }
  return {};
}

// Computes the prompt; false when it was cancelled between two chunks.
Result<bool> prefill(Engine& engine, model::SequenceState& sequence, std::span<const int32_t> prompt,
                     const GenerateOptions& options) {
  if (cancelled(options)) return false;
  bool stopped = false;
  const Status status = engine.prefill(sequence, prompt, [&](int64_t first, int64_t n) -> Status {
    const bool more = first + n < static_cast<int64_t>(prompt.size());
    stopped = more && cancelled(options);
    return stopped ? Status(Error{ErrorCode::kCancelled, "the prompt was cancelled"}) : Status();
  });
  if (!status.ok() && !stopped) return status.error();
  return !stopped;
}

// The next token after `row` of the last step.
Result<int32_t> sample(Engine& engine, text::Sampler& sampler, int32_t row) {
  int32_t id = -1;
  const int32_t rows[] = {row};
  RETURN_IF_ERROR(engine.logits(rows, [&](int64_t, std::span<const float> logits) -> Status {
    ASSIGN_OR_RETURN(id, sampler.sample(logits));
    return {};
  }));
  return id;
}

}  // namespace

Result<GenerateResult> generate(Engine& engine, model::SequenceState& sequence, const text::Tokenizer& tokenizer,
                                text::Sampler& sampler, std::span<const int32_t> prompt, const GenerateOptions& options,
                                const TokenSink& sink) {
  RETURN_IF_ERROR(check_prompt(engine, sequence, prompt));
  GenerateResult result;
  const int64_t start_ns = real_clock().now_ns();
  ASSIGN_OR_RETURN(const bool computed, prefill(engine, sequence, prompt, options));
  const int64_t computed_ns = real_clock().now_ns();
  result.prefill_ns = computed_ns - start_ns;
  const auto stop = [&](StopReason reason) {
    result.stop = reason;
    result.generate_ns = real_clock().now_ns() - computed_ns;
    return result;
  };
  if (!computed) return stop(StopReason::kCancelled);

  // The row of the prompt's last token in its last chunk; afterwards every step has one row.
  auto row = static_cast<int32_t>((prompt.size() - 1) % static_cast<size_t>(engine.max_rows()));
  while (result.n_tokens < options.max_tokens) {
    ASSIGN_OR_RETURN(const int32_t id, sample(engine, sampler, row));
    if (tokenizer.is_end_of_generation(id)) return stop(StopReason::kEndOfText);
    RETURN_IF_ERROR(sink(id));
    if (++result.n_tokens == options.max_tokens) break;
    if (cancelled(options)) return stop(StopReason::kCancelled);
    if (sequence.n_tokens() >= engine.context()) return stop(StopReason::kContextFull);
    const int32_t ids[] = {id};
    const model::BatchRows batch[] = {{&sequence, ids}};
    RETURN_IF_ERROR(engine.step(batch));
    row = 0;
  }
  return stop(StopReason::kLimit);
}

}  // namespace strata::engine
