// strata quantize: writes a model again with its weights in smaller types.
#include <unistd.h>

#include "base/counted.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/topology.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/model_choice.h"
#include "cli/streams.h"
#include "gguf/quantize/quantize.h"

namespace strata::cli {
namespace {

constexpr const char* kUsage = "write strata quantize IN OUT TYPE";

constexpr struct {
  Key key;
  const char* what;
} kNeeds[] = {{Key::kModel, "a model"}, {Key::kOut, "a file to write"}, {Key::kType, "a type"}};

// All three, or those that no flag gives.
Status take_words(Words words, Settings& settings) {
  if (words.empty()) return {};
  std::vector<Key> keys;
  for (const auto& need : kNeeds) {
    if (words.size() == std::size(kNeeds) || !settings.is_set(need.key)) keys.push_back(need.key);
  }
  if (words.size() != keys.size()) {
    return Error{ErrorCode::kBadInput,
                 format("quantize takes {}{}, but {} {} given; {}", counted(std::ssize(keys), "argument"),
                        std::size(keys) < std::size(kNeeds) ? " beside these flags" : "", words.size(),
                        words.size() == 1 ? "was" : "were", kUsage)};
  }
  for (size_t i = 0; i < keys.size(); i++) RETURN_IF_ERROR(give(settings, keys[i], words[i]));
  return {};
}

Status require_all(const Settings& settings) {
  for (const auto& [key, what] : kNeeds) {
    if (!settings.text(key).empty()) continue;
    return Error{ErrorCode::kBadInput, format("quantize needs {} (--{}); {}", what, setting(key).name, kUsage)};
  }
  return {};
}

ThreadPoolOptions thread_options(const Settings& settings) {
  const size_t n_cores = read_topology().physical_cores.size();
  const bool is_auto = settings.is_auto(Key::kThreads);
  return {.n_threads = is_auto ? static_cast<int>(n_cores) : static_cast<int>(settings.integer(Key::kThreads))};
}

// One line that is written over, for people who wait.
void show_progress(const gguf::QuantizeProgress& progress) {
  const char* from = quant::info(progress.tensor->type).name;
  const char* to = quant::info(progress.type).name;
  write_stderr(format("\r\x1b[K[{}/{}] {}  {} -> {}", progress.index + 1, progress.n_tensors,
                      printable(progress.tensor->name), from, to));
}

std::string summary_text(const std::string& out, const gguf::QuantizeSummary& summary) {
  const std::string n_tensors = counted(static_cast<int64_t>(summary.n_tensors), "tensor");
  std::string text = format("{}: {} of {} converted, {} -> {}\n", path_text(out), summary.n_converted, n_tensors,
                            format_bytes(summary.bytes_before), format_bytes(summary.bytes_after));
  if (summary.n_fallbacks > 0) {
    text += format("{} got another type than asked for, the nearest that its rows fit; --log-level info tells which\n",
                   counted(static_cast<int64_t>(summary.n_fallbacks), "tensor"));
  }
  return text;
}

Status quantize(const Settings& settings) {
  RETURN_IF_ERROR(require_all(settings));
  ASSIGN_OR_RETURN(const gguf::FileType* type, gguf::find_file_type(settings.text(Key::kType)));
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  const InterruptRequest interrupt;
  gguf::QuantizeOptions options{.pure = settings.on(Key::kPure),
                                .allow_requantize = settings.on(Key::kAllowRequantize),
                                .cancel = &interrupt.requested()};
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) options.progress = show_progress;
  ThreadPool pool(thread_options(settings));
  const std::string& out = settings.text(Key::kOut);
  const Result<gguf::QuantizeSummary> summary = gguf::quantize(*model, out, *type, options, pool);
  if (terminal) write_stderr("\r\x1b[K");
  if (!summary.ok()) return summary.error();
  const std::string text = summary_text(out, *summary);
  if (!is_standard_output(out)) return write_stdout(text);
  write_stderr(text);
  return {};
}

}  // namespace

const Command kQuantizeCommand = {
    .name = "quantize",
    .arguments = "IN OUT TYPE",
    .summary = "Write a model again with its weights in a smaller type",
    .scope = kScopeQuantize,
    .take_words = take_words,
    .run = quantize,
};

}  // namespace strata::cli
