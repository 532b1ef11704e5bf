#include "cli/bench/serve_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/sync.h"
#include "cli/openai_event.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kWords[] = {"river", "stone", "cloud", "garden", "window", "letter", "morning", "silver",
                                  "forest", "bridge", "winter", "candle", "harbor", "meadow", "lantern", "island"};
constexpr size_t kMaxErrorBytes = 64 << 10;

// What all clients of a measurement saw.
struct Seen {
  Mutex mutex;
  std::vector<double> first_s, gaps_s;
  int64_t prompt_tokens = 0, answer_tokens = 0;
  Status status;  // the first failure
};

// What one request saw.
struct Answer {
  std::string rest;  // of a body that is no stream, for the message
  int64_t begun_ns = 0, last_ns = 0;
  double first_s = 0;
  std::vector<double> gaps_s;
  int64_t prompt_tokens = 0, answer_tokens = 0, pieces = 0;
  std::optional<std::string> error;
  bool finished = false;

  void take(std::string_view data) {
    const int64_t now_ns = real_clock().now_ns();
    const OpenAiEvent event = read_openai_event(data);
    if (event.error) error = event.error;
    if (event.prompt_tokens) prompt_tokens = *event.prompt_tokens;
    if (event.answer_tokens) answer_tokens = *event.answer_tokens;
    finished = finished || !event.finish.empty();
    if (event.text.empty()) return;
    if (pieces++ == 0) {
      first_s = static_cast<double>(now_ns - begun_ns) * 1e-9;
    } else {
      gaps_s.push_back(static_cast<double>(now_ns - last_ns) * 1e-9);
    }
    last_ns = now_ns;
  }
};

// Prompts differ from their first word on, so that no server can keep one for the next.
std::string prompt_text(Random& random, int64_t words) {
  std::string text;
  for (int64_t i = 0; i < words; i++) text += std::string(i == 0 ? "" : " ") + kWords[random.below(std::size(kWords))];
  return text;
}

std::string request_body(const ServeBenchOptions& options, Random& random) {
  return Json{{"model", "default"},
              {"prompt", prompt_text(random, options.prompt_words)},
              {"max_tokens", options.answer_tokens},
              {"temperature", 0},
              {"ignore_eos", true},
              {"stream", true},
              {"stream_options", {{"include_usage", true}}}}
      .dump();
}

Result<Answer> ask(server::http::Client& client, const ServeBenchOptions& options, Random& random) {
  const server::http::ClientRequest request{.method = "POST", .path = "/v1/completions",
                                            .body = request_body(options, random), .api_key = options.api_key};
  Answer answer;
  answer.begun_ns = real_clock().now_ns();
  server::http::SseReader events;
  const Result<int> status = client.ask(request, [&](std::string_view piece) {
    if (answer.rest.size() < kMaxErrorBytes) answer.rest += piece;
    return events.push(piece, [&](std::string_view, std::string_view data) { answer.take(data); });
  });
  // Nothing but an event without an end makes the reader stop.
  if (!status.ok() && status.error().code != ErrorCode::kCancelled) return status.error();
  if (status.ok() && *status != 200) return openai_error(*status, answer.rest);
  if (answer.error) return Error{ErrorCode::kIo, "the server failed: " + *answer.error};
  if (!status.ok() || !answer.finished) {
    return Error{ErrorCode::kIo,
                 "the server's answer is not a whole stream of OpenAI's completions; is that a server of one?"};
  }
  if (answer.pieces == 0) {
    return Error{ErrorCode::kIo, "the server's answer has no text, so that there is nothing to time; give a larger -n"};
  }
  if (answer.answer_tokens == 0) answer.answer_tokens = answer.pieces;
  return answer;
}

void run_client(const ServeBenchOptions& options, uint64_t seed, Seen& seen) {
  server::http::Client client(options.url);
  Random random(seed);
  for (int64_t i = 0; i < options.requests; i++) {
    Result<Answer> answer = ask(client, options, random);
    const LockGuard lock(seen.mutex);
    if (!answer.ok()) {
      if (seen.status.ok()) seen.status = answer.error();
      return;
    }
    seen.first_s.push_back(answer->first_s);
    seen.gaps_s.insert(seen.gaps_s.end(), answer->gaps_s.begin(), answer->gaps_s.end());
    seen.prompt_tokens += answer->prompt_tokens;
    seen.answer_tokens += answer->answer_tokens;
  }
}

}  // namespace

Percentiles percentiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto nth = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(nth, 1) - 1];
  };
  return {.p50 = rank(0.5), .p99 = rank(0.99)};
}

Result<ServeResult> bench_serve(const ServeBenchOptions& options, int64_t clients) {
  // The seed follows from the number of clients: every run asks the same.
  const uint64_t seed = static_cast<uint64_t>(clients) * 1000;
  server::http::Client warm_up(options.url);
  Random random(seed);
  ASSIGN_OR_RETURN(const Answer first, ask(warm_up, options, random));
  static_cast<void>(first);
  Seen seen;
  const int64_t begun_ns = real_clock().now_ns();
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int64_t i = 0; i < clients; i++) {
      threads.push_back(std::make_unique<Thread>(
          [&options, &seen, client_seed = seed + static_cast<uint64_t>(i) + 1] {
            run_client(options, client_seed, seen);
          }));
    }
  }
  RETURN_IF_ERROR(seen.status);
  return ServeResult{.clients = clients,
                     .requests = clients * options.requests,
                     .prompt_tokens = seen.prompt_tokens,
                     .answer_tokens = seen.answer_tokens,
                     .seconds = static_cast<double>(real_clock().now_ns() - begun_ns) * 1e-9,
                     .first_token_s = percentiles_of(std::move(seen.first_s)),
                     .between_tokens_s = percentiles_of(std::move(seen.gaps_s))};
}

std::string serve_table_head() {
  return "| clients | requests | prompt tok/s | answer tok/s | first ms p50 |     p99 | next ms p50 |     p99 |\n"
         "| ------: | -------: | -----------: | -----------: | -----------: | ------: | ----------: | ------: |\n";
}

std::string serve_row(const ServeResult& result) {
  return format("| {:>7} | {:>8} | {:>12.1f} | {:>12.1f} | {:>12.0f} | {:>7.0f} | {:>11.1f} | {:>7.1f} |\n",
                result.clients, result.requests, static_cast<double>(result.prompt_tokens) / result.seconds,
                static_cast<double>(result.answer_tokens) / result.seconds, 1e3 * result.first_token_s.p50,
                1e3 * result.first_token_s.p99, 1e3 * result.between_tokens_s.p50, 1e3 * result.between_tokens_s.p99);
}

std::string serve_json(const std::vector<ServeResult>& results) {
  Json rows = Json::array();
  for (const ServeResult& result : results) {
    rows.push_back({{"clients", result.clients},
                    {"requests", result.requests},
                    {"prompt_tokens", result.prompt_tokens},
                    {"answer_tokens", result.answer_tokens},
                    {"seconds", result.seconds},
                    {"first_token_s", {{"p50", result.first_token_s.p50}, {"p99", result.first_token_s.p99}}},
                    {"between_tokens_s",
                     {{"p50", result.between_tokens_s.p50}, {"p99", result.between_tokens_s.p99}}}});
  }
  return rows.dump(2) + "\n";
}

}  // namespace strata::cli
