// The text is cut into windows of the context's length that do not overlap. In each, the tokens of the second half are
// scored, every one after all that come before it in the window; what does not fill a window is left out. A model that
// expects a token for the beginning of a text gets it as the first of every window.
#include <cmath>

#include "base/clock.h"
#include "base/counted.h"
#include "base/format.h"
#include "cli/eval/evaluation.h"
#include "cli/model_choice.h"
#include "cli/speed.h"
#include "cli/streams.h"
#include "text/tokenizer.h"

namespace strata::cli {
namespace {

constexpr int64_t kAutoWindow = 512;

// Mean and spread of the surprise of tokens, by the method of Welford.
struct Surprise {
  int64_t n = 0;
  double mean = 0;
  double squares = 0;  // sum of squared differences from the mean

  void add(double nats) {
    n++;
    const double difference = nats - mean;
    mean += difference / static_cast<double>(n);
    squares += difference * (nats - mean);
  }
  double perplexity() const { return std::exp(mean); }
  // The standard error of the mean, carried over to the perplexity.
  double error() const {
    if (n < 2) return 0;
    return perplexity() * std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
  }
};

struct Windows {
  std::vector<int32_t> ids;  // of the text
  int32_t bos;               // in front of every window; text::kNoToken for none
  size_t length;             // tokens of a window, with that one
  size_t step() const { return length - (bos == text::kNoToken ? 0 : 1); }
  size_t n() const { return ids.size() / step(); }
  std::vector<int32_t> at(size_t index) const {
    std::vector<int32_t> window;
    if (bos != text::kNoToken) window.push_back(bos);
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(index * step());
    window.insert(window.end(), first, first + static_cast<std::ptrdiff_t>(step()));
    return window;
  }
};

Result<Windows> cut(const Settings& settings, const text::Tokenizer& tokenizer, int64_t length) {
  if (length < 4) {
    return Error{ErrorCode::kBadInput, format("--ctx {}: perplexity needs windows of at least 4 tokens", length)};
  }
  const std::string& path = settings.text(Key::kFile);
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxTextBytes));
  Windows windows{.ids = {},
                  .bos = tokenizer.add_bos() ? tokenizer.bos() : text::kNoToken,
                  .length = static_cast<size_t>(length)};
  ASSIGN_OR_RETURN(windows.ids, tokenizer.encode(text, {}));
  if (windows.n() == 0) {
    return Error{ErrorCode::kBadInput,
                 format("{} has {}, but a window takes {}; give a longer text or a smaller --ctx",
                        input_text(path), counted(static_cast<int64_t>(windows.ids.size()), "token"),
                        windows.step())};
  }
  return windows;
}

Status score(engine::Engine& engine, const std::vector<int32_t>& window, Surprise& surprise) {
  const size_t first = window.size() / 2;  // the first token that is scored, by the row before it
  size_t next = first;
  return for_each_row(engine, std::span(window).first(window.size() - 1), first - 1,
                      [&](std::span<const float> row) -> Status {
                        surprise.add(-static_cast<double>(row[static_cast<size_t>(window[next++])]));
                        return {};
                      });
}

}  // namespace

Status eval_perplexity(const Settings& settings) {
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFloat));
  if (config.context == 0) config.context = kAutoWindow;
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const Windows windows, cut(settings, *tokenizer, config.context));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, open_engine(settings, *model, config, stats));
  const int64_t start_ns = real_clock().now_ns();
  Surprise surprise;
  for (size_t i = 0; i < windows.n(); i++) RETURN_IF_ERROR(score(*engine, windows.at(i), surprise));
  if (settings.on(Key::kStats)) {
    const auto n_tokens = static_cast<int64_t>(windows.n() * windows.length);
    write_stderr(stats.to_text() + speed_text("prompt", n_tokens, real_clock().now_ns() - start_ns));
  }
  return write_stdout(format("perplexity: {:.4f} +- {:.4f} ({})\n", surprise.perplexity(), surprise.error(),
                             counted(surprise.n, "token")));
}

}  // namespace strata::cli
