#include "server/core/engine_generator.h"

#include <exception>
#include <limits>

#include "base/format.h"

namespace strata::server {

EngineGenerator::EngineGenerator(EngineGeneratorOptions options, const Stats& stats)
    : options_(std::move(options)), stats_(stats), started_ns_(real_clock().now_ns()) {
  thread_.emplace([this] { run(); });
}

EngineGenerator::~EngineGenerator() {
  {
    const LockGuard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  thread_->join();
}

void EngineGenerator::run() {
  Result<LoadedModel> loaded = load();
  if (loaded.ok()) {
    model_.emplace(std::move(loaded).value());
    description_ = model_->engine->describe();
    // How many may wait is decided by the server, which knows which of them belong together.
    engine::SchedulerOptions scheduling{.max_gap_ms = options_.max_gap_ms,
                                        .max_queued = std::numeric_limits<size_t>::max()};
    const LockGuard lock(mutex_);
    scheduler_ =
        std::make_unique<engine::Scheduler>(*model_->engine, *model_->tokenizer, scheduling, real_clock());
  } else {
    failure_ = loaded.error();
  }
  phase_.store(loaded.ok() ? GeneratorPhase::kReady : GeneratorPhase::kFailed);
  if (options_.loaded) options_.loaded();
  if (loaded.ok()) serve();
}

Result<LoadedModel> EngineGenerator::load() {
  try {
    return options_.load(bytes_);
  } catch (const std::exception& error) {
    return Error{ErrorCode::kNoMemory, format("cannot load the model: {}", error.what())};
  }
}

// Steps as long as there is anything to compute, and sleeps otherwise.
void EngineGenerator::serve() {
  for (;;) {
    mutex_.lock();
    while (!work_ && !stop_) wake_.wait(mutex_);
    const bool last = stop_ && !work_;
    work_ = false;
    mutex_.unlock();
    if (last) break;
    while (scheduler_->step()) continue;
  }
  phase_.store(GeneratorPhase::kStopped);
  {
    const LockGuard lock(mutex_);
    scheduler_.reset();
  }
  if (options_.stopping) options_.stopping(*model_->engine);
}

LoadProgress EngineGenerator::progress() const {
  LoadProgress progress;
  progress.seconds = static_cast<double>(real_clock().now_ns() - started_ns_) * 1e-9;
  const int64_t bytes = bytes_.load();
  if (phase() != GeneratorPhase::kLoading) {
    progress.fraction = 1;
  } else if (bytes > 0) {
    const double read = static_cast<double>(stats_.get(Counter::kFileReadBytes));
    progress.fraction = std::min(read / static_cast<double>(bytes), 0.99);  // there is more to do than to read
  }
  return progress;
}

const ServedModel* EngineGenerator::model() const {
  const GeneratorPhase now = phase();
  return now == GeneratorPhase::kReady || now == GeneratorPhase::kStopped ? &model_->served : nullptr;
}

Result<std::shared_ptr<engine::RequestHandle>> EngineGenerator::submit(const GenerationJob& job,
                                                                       engine::RequestListener& listener) {
  const LockGuard lock(mutex_);
  if (stop_ || scheduler_ == nullptr) return Error{ErrorCode::kCancelled, "the engine does not run"};
  auto handle = scheduler_->submit(nullptr, job.prompt, job.params, listener);
  if (!handle.ok()) return handle;
  work_ = true;
  wake_.notify_all();
  return handle;
}

std::string EngineGenerator::describe() const {
  return phase() == GeneratorPhase::kReady ? description_ : "";
}

const Error& EngineGenerator::failure() const {
  ASSERT(phase() == GeneratorPhase::kFailed);
  return failure_;
}

}  // namespace strata::server
