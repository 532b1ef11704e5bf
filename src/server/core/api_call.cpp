#include "server/core/api_call.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <new>
#include <typeinfo>

#include "base/format.h"
#include "base/log.h"
#include "server/core/work_queue.h"

namespace strata::server {
namespace {

constexpr double kLoadingRetryS = 5;
constexpr double kRetryMaxS = 60;

// Of an exception, what the log may hold: the texts of some quote what the client has sent.
std::string kind_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : typeid(error).name();
}

ApiError internal_failure() {
  return {.http_status = 500, .type = "server_error", .code = "internal_error",
          .message = "the server failed to answer; its log says why"};
}

}  // namespace

// One of the call's answers. On the generator's thread.
class RunningCall::Job final : public engine::RequestListener {
 public:
  Job(RunningCall& call, size_t index, int64_t prompt_tokens) : call_(call), index_(index) {
    progress_.prompt_tokens.store(prompt_tokens);
  }

  void on_prompt(int64_t done, int64_t total) override {
    progress_.prompt_done.store(done);
    if (!running_) start();
    call_.hear([&](Exchange& exchange) { exchange.on_prompt(index_, done, total); });
  }
  void on_token(int32_t id, const text::Logprobs* logprobs) override {
    const int64_t now_ns = call_.parts_.clock.now_ns();
    if (last_token_ns_ == 0) {
      call_.parts_.metrics.first_token(now_ns - call_.begun_ns_);
    } else {
      call_.parts_.metrics.next_token(now_ns - last_token_ns_);
    }
    last_token_ns_ = now_ns;
    progress_.answer_tokens.fetch_add(1);
    call_.hear([&](Exchange& exchange) { exchange.on_token(index_, id, logprobs); });
  }
  void on_text(std::string_view text) override {
    call_.hear([&](Exchange& exchange) { exchange.on_text(index_, text); });
  }
  void on_finish(const engine::RequestResult& result) override {
    if (running_) call_.parts_.slots.release(progress_);
    call_.finish_job(index_, result);
  }

 private:
  void start() {
    running_ = true;
    progress_.started_ns = call_.parts_.clock.now_ns();
    call_.parts_.metrics.job_started(progress_.started_ns - call_.begun_ns_);
    call_.parts_.slots.occupy(progress_);
  }

  RunningCall& call_;
  const size_t index_;
  JobProgress progress_;
  bool running_ = false;
  int64_t last_token_ns_ = 0;
};

RunningCall::RunningCall(const Endpoint& endpoint, std::string tail, http::Body body,
                         std::shared_ptr<http::Responder> responder, uint64_t nonce, const CallParts& parts)
    : endpoint_(endpoint),
      tail_(std::move(tail)),
      nonce_(nonce),
      parts_(parts),
      begun_ns_(parts.clock.now_ns()),
      body_(std::move(body)),
      sink_(std::move(responder), parts.clock) {}

RunningCall::~RunningCall() = default;

void RunningCall::open() {
  if (gone()) return;
  try {
    open_exchange();
    body_.clear();
    if (exchange_ != nullptr) run_jobs();
  } catch (const std::exception& error) {
    log_error("{} {} failed: {}", endpoint_.method(), endpoint_.path(), kind_of(error));
    answer_error(internal_failure());
  }
}

void RunningCall::open_exchange() {
  if (const auto error = unavailable_now()) {
    answer_error(*error);
    return;
  }
  if (!http::within_json_depth(body_.bytes(), parts_.max_json_depth)) {
    answer_error(invalid_request(format("the body is nested deeper than {} levels", parts_.max_json_depth), "",
                                 "nested_too_deeply"));
    return;
  }
  const ApiCall call{.body = body_.bytes(), .tail = tail_, .unix_time = std::time(nullptr), .nonce = nonce_};
  auto opened = endpoint_.open(call, *parts_.generator.model(), sink_);
  if (!opened.ok()) {
    answer_error(opened.error());
  } else if (!(*opened)->jobs().empty()) {
    exchange_ = std::move(opened).value();
  }
}

// Queues the jobs, all or none.
void RunningCall::run_jobs() {
  const LockGuard lock(mutex_);
  const std::span<const GenerationJob> wanted = exchange_->jobs();
  if (const auto error = admit(static_cast<int64_t>(wanted.size()))) {
    refuse(*error);
    return;
  }
  for (const GenerationJob& job : wanted) {
    jobs_.push_back(std::make_unique<Job>(*this, jobs_.size(), static_cast<int64_t>(job.prompt.size())));
  }
  const Status first = submit(0);
  if (!first.ok()) {
    for (size_t left = jobs_.size(); left > 0; left--) parts_.slots.leave();
    refuse(first.error().code == ErrorCode::kCancelled ? end_error() : from_engine(first.error()));
    return;
  }
  // The others differ from the first in their seeds: only a generator that stops in between refuses them.
  jobs_left_ = jobs_.size();
  std::vector<std::pair<size_t, Error>> lost;
  for (size_t i = 1; i < jobs_.size(); i++) {
    if (const Status other = submit(i); !other.ok()) lost.emplace_back(i, other.error());
  }
  self_ = shared_from_this();
  tell([](Exchange& exchange) { exchange.begin(); });
  for (const auto& [job, error] : lost) {
    jobs_left_--;
    parts_.slots.leave();
    engine::RequestResult result;
    result.error = error;
    tell([&, index = job](Exchange& exchange) {
      exchange.on_ending(end_error());
      exchange.on_finish(index, result);
    });
  }
}

std::optional<ApiError> RunningCall::admit(int64_t jobs) {
  if (jobs > parts_.slots.limit()) {
    return invalid_request(
        format("{} answers at once are more than the {} that this server holds", jobs, parts_.slots.limit()), "n");
  }
  if (parts_.slots.admit(jobs)) return std::nullopt;
  return too_many_requests("the server is busy and its queue is full; try again later", retry_after_s());
}

Status RunningCall::submit(size_t job) {
  const LockGuard lock(handles_mutex_);
  if (end_.load() != End::kNone) return Error{ErrorCode::kCancelled, "the request was ended"};
  ASSIGN_OR_RETURN(auto handle, parts_.generator.submit(exchange_->jobs()[job], *jobs_[job]));
  handles_.push_back(std::move(handle));
  return {};
}

void RunningCall::refuse(const ApiError& error) {
  tell([&](Exchange& exchange) { exchange.refuse(error); });
  complete();
}

void RunningCall::answer_error(const ApiError& error) {
  if (!sink_.begun()) sink_.error(error, endpoint_.error_body(error));
}

std::optional<ApiError> RunningCall::unavailable_now() const {
  if (parts_.stopping.load()) return shutting_down();
  switch (parts_.generator.phase()) {
    case GeneratorPhase::kReady: return std::nullopt;
    case GeneratorPhase::kLoading: {
      const LoadProgress progress = parts_.generator.progress();
      return unavailable(format("the model is being loaded: {:.0f} % after {:.0f} s", 100 * progress.fraction,
                                progress.seconds), kLoadingRetryS);
    }
    case GeneratorPhase::kFailed: return unavailable("the model could not be loaded", 0);
    case GeneratorPhase::kStopped: return shutting_down();
  }
  return internal_failure();
}

// When a slot is likely to be free, going by how long requests have taken.
double RunningCall::retry_after_s() const {
  const double rounds = static_cast<double>(parts_.slots.admitted()) / parts_.generator.slots();
  return std::clamp(rounds * parts_.metrics.mean_request_s(), 1.0, kRetryMaxS);
}

void RunningCall::end_jobs(End why) {
  const LockGuard lock(handles_mutex_);
  End none = End::kNone;
  if (!end_.compare_exchange_strong(none, why)) return;
  for (const auto& handle : handles_) handle->cancel();
}

void RunningCall::tick(int64_t now_ns) {
  if (parts_.timeout_ns > 0 && now_ns - begun_ns_ > parts_.timeout_ns) end_jobs(End::kTimeout);
  const int64_t last_word_ns = sink_.last_word_ns();
  if (last_word_ns == 0 || now_ns - last_word_ns < parts_.keep_alive_ns || keeping_alive_.exchange(true)) return;
  parts_.workers.push([self = shared_from_this()] { self->keep_alive(); });
}

void RunningCall::keep_alive() {
  hear([](Exchange& exchange) { exchange.keep_alive(); });
  keeping_alive_.store(false);
}

std::string RunningCall::summary() const {
  return prompt_tokens_.load() == 0
             ? ""
             : format(", {} tokens of prompt, {} of answer", prompt_tokens_.load(), answer_tokens_.load());
}

// Calls the exchange, as long as anybody listens to it; mutex_ is held. What it throws (for want of memory) must not
// reach the engine.
template <class Say>
void RunningCall::tell(const Say& say) {
  if (exchange_ == nullptr || broken_ || gone()) return;
  try {
    say(*exchange_);
  } catch (const std::exception& error) {
    log_error("{} {} failed: {}", endpoint_.method(), endpoint_.path(), kind_of(error));
    broken_ = true;
    const LockGuard lock(handles_mutex_);
    for (const auto& handle : handles_) handle->cancel();
  }
}

void RunningCall::finish_job(size_t job, const engine::RequestResult& result) {
  parts_.slots.leave();
  parts_.metrics.job_finished(result, parts_.clock.now_ns() - begun_ns_);
  prompt_tokens_.fetch_add(result.prompt_tokens);
  answer_tokens_.fetch_add(result.answer_tokens);
  std::shared_ptr<RunningCall> self;  // this may die with it, after the lock
  const LockGuard lock(mutex_);
  tell([&](Exchange& exchange) {
    if (!we_ended(result)) return exchange.on_finish(job, result);
    engine::RequestResult failed = result;
    failed.finish = engine::Finish::kFailed;
    failed.error = Error{ErrorCode::kCancelled, end_error().message};
    exchange.on_ending(end_error());
    exchange.on_finish(job, failed);
  });
  if (--jobs_left_ > 0) return;
  self.swap(self_);
  complete();
}

// An exchange that threw has left its reply open, and may throw again.
void RunningCall::complete() {
  if (broken_ && !gone()) {
    try {
      exchange_->break_off(internal_failure());
    } catch (const std::exception& error) {
      log_error("{} {} failed at its end: {}", endpoint_.method(), endpoint_.path(), kind_of(error));
    }
  }
  if (!sink_.ended() && sink_.begun()) sink_.end_stream();
  answer_error(internal_failure());
  exchange_.reset();
}

// Not the client, who hears of nothing any more.
bool RunningCall::we_ended(const engine::RequestResult& result) const {
  return result.finish == engine::Finish::kCancelled && end_.load() != End::kNone;
}

ApiError RunningCall::end_error() const {
  if (end_.load() != End::kTimeout) return shutting_down();
  return timed_out(
      format("the request took longer than {} s (--request-timeout-s)", parts_.timeout_ns / 1'000'000'000));
}

}  // namespace strata::server
