#include "cli/chat/turn_report.h"

#include "base/counted.h"
#include "base/format.h"

namespace strata::cli {
namespace {

std::string rate(int64_t n_tokens, int64_t duration_ns) {
  if (n_tokens == 0 || duration_ns <= 0) return "";
  return format(" at {:.1f}/s", static_cast<double>(n_tokens) * 1e9 / static_cast<double>(duration_ns));
}

}  // namespace

ExpertReads ExpertReads::of(const Stats& stats) {
  return {.arena = stats.get(Counter::kArenaLeases),
          .mapped = stats.get(Counter::kMappedLeases),
          .file_bytes = stats.get(Counter::kFileReadBytes)};
}

std::string turn_line(const engine::RequestResult& result, const ExpertReads& before, const ExpertReads& after) {
  const int64_t computed = result.prompt_tokens - result.kept_tokens;
  std::string line = "prompt " + counted(computed, "token");
  if (result.kept_tokens > 0) line += format(" (+{} kept)", result.kept_tokens);
  line += rate(computed, result.prompt_ns);
  line += ", answer " + counted(result.answer_tokens, "token") + rate(result.answer_tokens, result.answer_ns);
  std::string experts;
  if (after.arena > before.arena) experts += format(" {} from RAM", after.arena - before.arena);
  if (after.mapped > before.mapped) experts += format(" {} from mapped files", after.mapped - before.mapped);
  if (after.file_bytes > before.file_bytes) {
    experts += format(" {} read", format_bytes(static_cast<uint64_t>(after.file_bytes - before.file_bytes)));
  }
  return experts.empty() ? line : line + "; experts:" + experts;
}

std::string cut_reason(const engine::RequestResult& result, int64_t context, int64_t repeat_stop_tokens) {
  switch (result.finish) {
    case engine::Finish::kContextFull:
      return format("the context of {} is full; --ctx makes it larger", counted(context, "token"));
    case engine::Finish::kRepetition:
      return format("the model repeats one token; the answer ends after {} in a row (--repeat-stop-tokens)",
                    repeat_stop_tokens);
    case engine::Finish::kMaxTokens:
      return format("the answer ends after {} (--predict)", counted(result.answer_tokens, "token"));
    case engine::Finish::kCancelled: return "interrupted after " + counted(result.answer_tokens, "token");
    case engine::Finish::kEndOfText:
    case engine::Finish::kStopString:
    case engine::Finish::kFailed: break;
  }
  return "";
}

}  // namespace strata::cli
