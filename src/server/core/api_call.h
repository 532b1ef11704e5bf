// One request to an API, from its body to the end of its reply.
//
// Three threads meet here. The connections' thread brings the client's going and the time; a worker opens the exchange
// and queues its jobs; the generator's thread says what becomes of them. The exchange is called under mutex_, so that
// it is called by one thread at a time: the generator's waits there until all jobs are queued and begin() has been
// called. Whether the jobs are to end is told apart from that, under a mutex that nobody holds for long.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "server/core/generator.h"
#include "server/core/metrics.h"
#include "server/core/sink.h"
#include "server/core/slots.h"

namespace strata::server {

class WorkQueue;

// What calls share. Outlives them.
struct CallParts {
  Generator& generator;
  Slots& slots;
  Metrics& metrics;
  WorkQueue& workers;
  Clock& clock;
  int64_t timeout_ns;     // of a request; 0: none
  int64_t keep_alive_ns;  // of silence in a stream
  int max_json_depth;
  const std::atomic<bool>& stopping;  // no request is begun any more
};

class RunningCall final : public http::Call, public std::enable_shared_from_this<RunningCall> {
 public:
  RunningCall(const Endpoint& endpoint, std::string tail, http::Body body, std::shared_ptr<http::Responder> responder,
              uint64_t nonce, const CallParts& parts);
  ~RunningCall() override;

  // On a worker, once: opens the exchange and queues its jobs.
  void open();
  // Ends its jobs; the client is told that the server is shutting down. Any thread.
  void shut_down() { end_jobs(End::kShutDown); }

  void client_gone() override { end_jobs(End::kGone); }
  void tick(int64_t now_ns) override;
  std::string summary() const override;

 private:
  enum class End { kNone, kGone, kTimeout, kShutDown };
  class Job;

  void open_exchange();
  void run_jobs();
  std::optional<ApiError> admit(int64_t jobs);
  Status submit(size_t job);
  void refuse(const ApiError& error);
  void answer_error(const ApiError& error);
  std::optional<ApiError> unavailable_now() const;
  double retry_after_s() const;
  void end_jobs(End why);
  void keep_alive();
  template <class Say>
  void tell(const Say& say);
  template <class Say>
  void hear(const Say& say) {
    const LockGuard lock(mutex_);
    tell(say);
  }
  void finish_job(size_t job, const engine::RequestResult& result);
  void complete();
  bool we_ended(const engine::RequestResult& result) const;
  bool gone() const { return end_.load() == End::kGone; }
  ApiError end_error() const;  // of what we ended

  const Endpoint& endpoint_;
  const std::string tail_;
  const uint64_t nonce_;
  const CallParts& parts_;
  const int64_t begun_ns_;
  http::Body body_;

  Mutex mutex_;  // the exchange, and who may call it; guards the rest up to end_
  HttpSink sink_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<std::unique_ptr<Job>> jobs_;
  size_t jobs_left_ = 0;
  bool broken_ = false;  // the exchange threw
  std::shared_ptr<RunningCall> self_;  // while the generator knows of it

  std::atomic<End> end_{End::kNone};
  std::atomic<bool> keeping_alive_{false};  // a worker has been asked to
  std::atomic<int64_t> prompt_tokens_{0}, answer_tokens_{0};
  Mutex handles_mutex_;
  std::vector<std::shared_ptr<engine::RequestHandle>> handles_;
};

}  // namespace strata::server
