#include "server/core/metrics.h"

#include <fstream>

#include <unistd.h>

#include "base/format.h"

namespace strata::server {
namespace {

constexpr double kRequestBounds[] = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280};
constexpr double kTokenBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5};

struct FinishName {
  const char* reason;  // vLLM's
  const char* cause;   // ours, which are more
};
// In the order of engine::Finish.
constexpr FinishName kFinishNames[] = {{"stop", "end_of_text"}, {"stop", "stop_string"}, {"length", "max_tokens"},
                                       {"length", "repetition"}, {"length", "context_full"}, {"abort", "cancelled"},
                                       {"error", "failed"}};

std::string head(const char* name, const char* type, std::string_view help) {
  return format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

// Of a label: backslash, quote and line end are escaped.
std::string label_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string gauge(const char* name, const char* help, const std::string& labels, int64_t value) {
  return head(name, "gauge", help) + format("{}{{{}}} {}\n", name, labels, value);
}

std::string counter(const char* name, const char* help, const std::string& labels, int64_t value) {
  return head(name, "counter", help) + format("{}{{{}}} {}\n", name, labels, value);
}

std::string engine_text(const Stats& stats, const std::string& labels) {
  std::string text;
  // X-macro rows carry the help text; a gauge says that it is one.
#define X(id, name, help)                                                                                \
  {                                                                                                      \
    const bool is_gauge = std::string_view(help).ends_with("(a gauge)");                                 \
    const std::string full = std::string("strata:") + name + (is_gauge ? "" : "_total");                 \
    text += head(full.c_str(), is_gauge ? "gauge" : "counter", help);                                    \
    text += format("{}{{{}}} {}\n", full, labels, stats.get(Counter::id));                               \
  }
  STRATA_COUNTERS(X)
#undef X
  return text;
}

}  // namespace

void Histogram::observe_ns(int64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  size_t i = 0;
  while (i < bounds_s_.size() && seconds > bounds_s_[i]) i++;
  counts_[i].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
}

std::string Histogram::to_text(const char* name, const std::string& labels) const {
  std::string text;
  int64_t below = 0;
  for (size_t i = 0; i < bounds_s_.size(); i++) {
    below += counts_[i].load(std::memory_order_relaxed);
    text += format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_s_[i], below);
  }
  below += counts_[bounds_s_.size()].load(std::memory_order_relaxed);
  text += format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, below);
  return text + format("{}_sum{{{}}} {:.6f}\n{}_count{{{}}} {}\n", name, labels, sum_s(), name, labels, below);
}

Metrics::Metrics()
    : to_first_token_(kRequestBounds), between_tokens_(kTokenBounds), in_queue_(kRequestBounds),
      whole_(kRequestBounds) {
  static_assert(std::size(kRequestBounds) <= Histogram::kMaxBounds && std::size(kTokenBounds) <= Histogram::kMaxBounds);
  static_assert(std::size(kFinishNames) == kFinishes);
}

void Metrics::job_finished(const engine::RequestResult& result, int64_t since_request_ns) {
  finished_[static_cast<size_t>(result.finish)].fetch_add(1, std::memory_order_relaxed);
  prompt_tokens_.fetch_add(result.prompt_tokens, std::memory_order_relaxed);
  kept_tokens_.fetch_add(result.kept_tokens, std::memory_order_relaxed);
  answer_tokens_.fetch_add(result.answer_tokens, std::memory_order_relaxed);
  whole_.observe_ns(since_request_ns);
}

void Metrics::answered(int status) {
  if (status < 0 || static_cast<size_t>(status) >= statuses_.size()) return;
  statuses_[static_cast<size_t>(status)].fetch_add(1, std::memory_order_relaxed);
}

double Metrics::mean_request_s() const {
  const int64_t n = whole_.count();
  return n == 0 ? 0 : whole_.sum_s() / static_cast<double>(n);
}

std::string Metrics::to_text(const MetricsMoment& moment) const {
  const std::string labels = format("model_name=\"{}\"", label_text(moment.model));
  const auto load = [](const std::atomic<int64_t>& value) { return value.load(std::memory_order_relaxed); };
  std::string text = gauge("vllm:num_requests_running", "requests that are computed", labels, moment.running) +
                     gauge("vllm:num_requests_waiting", "requests that wait for a slot", labels, moment.waiting) +
                     counter("vllm:prompt_tokens_total", "tokens of prompts", labels, load(prompt_tokens_)) +
                     counter("vllm:generation_tokens_total", "tokens of answers", labels, load(answer_tokens_)) +
                     counter("strata:kept_prompt_tokens_total", "of prompts, tokens that were not computed again",
                             labels, load(kept_tokens_));
  text += head("vllm:request_success_total", "counter", "requests by why they ended");
  for (size_t i = 0; i < kFinishes; i++) {
    text += format("vllm:request_success_total{{{},finished_reason=\"{}\",cause=\"{}\"}} {}\n", labels,
                   kFinishNames[i].reason, kFinishNames[i].cause, load(finished_[i]));
  }
  const auto histogram = [&](const char* name, const char* help, const Histogram& values) {
    text += head(name, "histogram", help) + values.to_text(name, labels);
  };
  histogram("vllm:time_to_first_token_seconds", "from a request's body to its first token", to_first_token_);
  histogram("vllm:inter_token_latency_seconds", "from one token of an answer to the next", between_tokens_);
  histogram("vllm:request_queue_time_seconds", "from a request's body to its first step", in_queue_);
  histogram("vllm:e2e_request_latency_seconds", "from a request's body to its last token", whole_);
  text += head("strata:http_responses_total", "counter", "answers by status; 0: the client left before there was one");
  for (size_t status = 0; status < statuses_.size(); status++) {
    if (const int64_t n = load(statuses_[status]); n > 0) {
      text += format("strata:http_responses_total{{{},status=\"{}\"}} {}\n", labels, status, n);
    }
  }
  text += gauge("strata:ready", "1 when the model is loaded", labels, moment.ready ? 1 : 0) +
          gauge("strata:slots", "requests that can be computed at once", labels, moment.slots) +
          gauge("strata:http_connections", "open connections", labels, moment.connections) +
          gauge("strata:resident_memory_bytes", "RAM that the process holds", labels, moment.resident_bytes);
  return moment.stats == nullptr ? text : text + engine_text(*moment.stats, labels);
}

int64_t process_resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  if (!(statm >> pages >> resident)) return 0;
  return resident * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace strata::server
