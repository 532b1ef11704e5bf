// What the server counts, and its text for Prometheus. The names are vLLM's where the meaning is the same, so that
// dashboards made for it fit; what only this program has begins with "strata:".
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/stats.h"
#include "engine/request.h"

namespace strata::server {

// Counts of values up to bounds that are fixed when it is made. Any thread.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 16;
  explicit Histogram(std::span<const double> bounds_s) : bounds_s_(bounds_s) {}
  void observe_ns(int64_t ns);
  int64_t count() const { return count_.load(std::memory_order_relaxed); }
  double sum_s() const { return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9; }
  // Lines of "name_bucket{labels,le=...}", "name_sum" and "name_count".
  std::string to_text(const char* name, const std::string& labels) const;

 private:
  const std::span<const double> bounds_s_;
  std::array<std::atomic<int64_t>, kMaxBounds + 1> counts_{};
  std::atomic<int64_t> count_{0}, sum_ns_{0};
};

// What is so at the moment that the text is made.
struct MetricsMoment {
  std::string model;
  const Stats* stats = nullptr;  // of the engine; may be null
  int64_t running = 0, waiting = 0, slots = 0, connections = 0;
  int64_t resident_bytes = 0;  // of the process
  bool ready = false;
};

// Any thread.
class Metrics {
 public:
  Metrics();

  void first_token(int64_t since_request_ns) { to_first_token_.observe_ns(since_request_ns); }
  void next_token(int64_t gap_ns) { between_tokens_.observe_ns(gap_ns); }
  void job_started(int64_t waited_ns) { in_queue_.observe_ns(waited_ns); }
  void job_finished(const engine::RequestResult& result, int64_t since_request_ns);
  void answered(int status);

  // Of all requests so far; 0 before the first.
  double mean_request_s() const;
  std::string to_text(const MetricsMoment& moment) const;

 private:
  static constexpr size_t kFinishes = 7;
  std::atomic<int64_t> prompt_tokens_{0}, answer_tokens_{0}, kept_tokens_{0};
  std::array<std::atomic<int64_t>, kFinishes> finished_{};
  std::array<std::atomic<int64_t>, 600> statuses_{};
  Histogram to_first_token_, between_tokens_, in_queue_, whole_;
};

// Resident memory of this process, from /proc; 0 where the system does not say.
int64_t process_resident_bytes();

}  // namespace strata::server
