#include "server/support/stub_generator.h"

#include <algorithm>

namespace strata::server {

StubGenerator::StubGenerator(const StubOptions& options)
    : options_(options), phase_(options.loading ? GeneratorPhase::kLoading : GeneratorPhase::kReady) {
  model_.id = "stub";
  model_.context = 1 << 20;
  thread_.emplace([this] { run(); });
}

StubGenerator::~StubGenerator() {
  {
    const LockGuard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  thread_->join();
}

Result<std::shared_ptr<engine::RequestHandle>> StubGenerator::submit(const GenerationJob& job,
                                                                     engine::RequestListener& listener) {
  if (job.prompt.empty()) return Error{ErrorCode::kBadInput, "the prompt is empty"};
  auto handle = std::make_shared<engine::RequestHandle>();
  const LockGuard lock(mutex_);
  queued_.push_back(std::make_unique<Job>(Job{.handle = handle,
                                              .listener = &listener,
                                              .max_tokens = job.params.max_tokens.value_or(8),
                                              .prompt_tokens = static_cast<int64_t>(job.prompt.size()),
                                              .prompt_left = options_.prompt_steps}));
  submitted_++;
  wake_.notify_all();
  return handle;
}

void StubGenerator::step(int64_t n) {
  const LockGuard lock(mutex_);
  allowed_ += n;
  wake_.notify_all();
}

// A stop lets everything run to its end: whoever stops has cancelled what he doesn't want.
void StubGenerator::run() {
  for (;;) {
    mutex_.lock();
    const auto idle = [&] { return queued_.empty() && running_.empty(); };
    const auto may_step = [&] { return !options_.stepping || allowed_ > 0 || stop_; };
    while (!stop_ && (idle() || !may_step())) {
      // A cancelled job ends without being stepped.
      const auto cancelled = [](const auto& job) { return job->handle->cancelled(); };
      if (std::any_of(running_.begin(), running_.end(), cancelled) ||
          std::any_of(queued_.begin(), queued_.end(), cancelled)) {
        break;
      }
      wake_.wait_for(mutex_, std::chrono::milliseconds(1));
    }
    if (stop_ && idle()) {
      mutex_.unlock();
      return;
    }
    const bool computes = may_step();
    if (options_.stepping && computes && !stop_) allowed_--;
    std::deque<std::unique_ptr<Job>> cancelled;
    for (auto& job : queued_) {
      if (job->handle->cancelled()) {
        cancelled.push_back(std::move(job));
      } else if (computes && running_.size() < static_cast<size_t>(options_.slots)) {
        started_++;
        running_.push_back(std::move(job));
      }
    }
    std::erase(queued_, nullptr);
    mutex_.unlock();
    for (const auto& job : cancelled) finish(*job, engine::Finish::kCancelled);
    if (computes) steps_++;
    std::erase_if(running_, [&](const auto& job) {
      if (job->handle->cancelled()) {
        finish(*job, engine::Finish::kCancelled);
        return true;
      }
      return computes && advance(*job);
    });
  }
}

bool StubGenerator::advance(Job& job) {
  if (job.prompt_left > 0) {
    job.prompt_left--;
    const int64_t steps = options_.prompt_steps;
    job.listener->on_prompt(job.prompt_tokens * (steps - job.prompt_left) / steps, job.prompt_tokens);
    return false;
  }
  if (job.result.answer_tokens == options_.fail_after) {
    job.result.error = Error{ErrorCode::kInternal, "the device failed in /some/folder"};
    finish(job, engine::Finish::kFailed);
    return true;
  }
  if (job.result.answer_tokens >= job.max_tokens) {
    finish(job, engine::Finish::kMaxTokens);
    return true;
  }
  const bool is_first = job.result.answer_tokens++ == 0;
  job.listener->on_token(7, nullptr);
  job.listener->on_text(is_first && !options_.first_piece.empty() ? options_.first_piece : options_.piece);
  return false;
}

void StubGenerator::finish(Job& job, engine::Finish reason) {
  job.result.finish = reason;
  job.result.prompt_tokens = job.prompt_tokens;
  job.listener->on_finish(job.result);
  finished_++;
}

}  // namespace strata::server
