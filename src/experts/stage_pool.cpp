#include "experts/stage_pool.h"

#include <algorithm>

#include "base/activity.h"
#include "base/format.h"
#include "base/log.h"

namespace strata::experts {

using device::MemoryKind;
using Outcome = StagePool::Claim::Outcome;

namespace {

// More buffers than any step should need at once.
constexpr size_t kManyBuffers = 512;

// Has the system put pages behind the memory, so that no read waits for them: clearing huge pages, or making them in
// fragmented memory, can take longer than reading them full (measured: first reads at a sixth of the drive's speed).
void touch_pages(device::HostBuffer& buffer) {
  constexpr size_t kPage = 4096;
  const auto guard = buffer.write<std::byte>(0, buffer.bytes());
  for (size_t at = 0; at < buffer.bytes(); at += kPage) {
    volatile std::byte* byte = guard.span().data() + at;
    *byte = *byte;
  }
}

}  // namespace

StagePool::StagePool(const StagePoolOptions& options) : options_(options), where_(options.layout.n_experts(), -1) {}

Result<std::unique_ptr<StagePool>> StagePool::create(const StagePoolOptions& options) {
  ASSERT(options.n_buffers >= 1);
  std::unique_ptr<StagePool> pool(new StagePool(options));
  for (int64_t i = 0; i < options.n_buffers; i++) {
    ASSIGN_OR_RETURN(auto stage, pool->make_stage());
    pool->stages_.push_back(std::move(stage));
  }
  return pool;
}

std::string StagePool::why_not_pinned(size_t bytes) const {
  if (!options_.pin) return "page-locking is switched off";
  const Result<uint64_t> available = options_.available_ram();
  if (!available.ok()) return available.error().message;
  if (*available >= kFreeWhenPinned + bytes) return {};
  return format("page-locking more would leave less than {} of the {} that are free", format_bytes(kFreeWhenPinned),
                format_bytes(*available));
}

// A blob starts at a multiple of the alignment, wherever the buffer's memory begins.
Result<std::unique_ptr<StagePool::Stage>> StagePool::make_stage() {
  const size_t bytes = options_.buffer_bytes + options_.alignment;
  auto stage = std::make_unique<Stage>();
  std::string why = why_not_pinned(bytes);
  if (why.empty()) {
    auto pinned = options_.device.allocate_host(bytes, MemoryKind::kPinned, "stage buffer");
    if (pinned.ok()) {
      stage->buffer = std::move(pinned).value();
    } else {
      why = pinned.error().message;
    }
  }
  if (!stage->buffer) {
    ASSIGN_OR_RETURN(stage->buffer, options_.device.allocate_host(bytes, MemoryKind::kPageable, "stage buffer"));
    const LockGuard lock(mutex_);
    n_pageable_++;
    if (why_pageable_.empty()) why_pageable_ = std::move(why);
  }
  touch_pages(*stage->buffer);
  const auto address = reinterpret_cast<uintptr_t>(stage->buffer->address());
  stage->start = static_cast<size_t>(align_up(address, options_.alignment) - address);
  return stage;
}

int32_t& StagePool::where(ExpertKey key) { return where_[options_.layout.index(key)]; }

void StagePool::enter_layer(int32_t layer) {
  const LockGuard lock(mutex_);
  if (layer < layer_) token_++;
  layer_ = layer;
  layer_stamp_ = stamp_of({layer, 0});
}

// Visits of layers are numbered through all tokens. A layer below the one asked for last is visited by the next token.
int64_t StagePool::stamp_of(ExpertKey key) const {
  const int64_t token = key.layer < layer_ ? token_ + 1 : token_;
  return token * std::ssize(options_.layout.layers()) + key.layer;
}

StagePool::Claim StagePool::claim(ExpertKey key) {
  const LockGuard lock(mutex_);
  if (const int32_t at = where(key); at >= 0) {
    Stage& s = stage(static_cast<uint32_t>(at));
    use(s);
    const bool here = s.state == State::kFull;
    if (here) options_.stats.add(Counter::kStageHits);
    return {here ? Outcome::kHere : Outcome::kComing, static_cast<uint32_t>(at)};
  }
  const std::optional<uint32_t> taken = least_recent(false);
  if (!taken) return {Outcome::kNoRoom};
  take(*taken, key, layer_stamp_);
  stage(*taken).leases = 1;
  return {Outcome::kMine, *taken};
}

std::optional<uint32_t> StagePool::claim_present(ExpertKey key) {
  const LockGuard lock(mutex_);
  const int32_t at = where(key);
  if (at < 0 || stage(static_cast<uint32_t>(at)).state != State::kFull) return std::nullopt;
  use(stage(static_cast<uint32_t>(at)));
  options_.stats.add(Counter::kStageHits);
  return static_cast<uint32_t>(at);
}

std::optional<uint32_t> StagePool::claim_for_hint(ExpertKey key) {
  const LockGuard lock(mutex_);
  if (where(key) >= 0) return std::nullopt;
  const auto n_hints = std::count_if(stages_.begin(), stages_.end(), [&](const auto& s) { return fresh_hint(*s); });
  if (2 * n_hints >= options_.n_buffers) return std::nullopt;
  const std::optional<uint32_t> taken = least_recent(true);
  if (!taken || !stage(*taken).fences.idle()) return std::nullopt;
  take(*taken, key, stamp_of(key));
  stage(*taken).hinted = true;
  return taken;
}

// Free buffers first: they were never used, or have nothing worth keeping.
std::optional<uint32_t> StagePool::least_recent(bool for_hint) const {
  std::optional<uint32_t> best;
  const auto rank = [](const Stage& s) { return s.state == State::kFree ? -1 : s.last_use; };
  for (uint32_t i = 0; i < stages_.size(); i++) {
    const Stage& s = stage(i);
    if (!takable(s) || (for_hint && fresh_hint(s))) continue;
    if (!best || rank(s) < rank(stage(*best))) best = i;
  }
  return best;
}

void StagePool::take(uint32_t place, ExpertKey key, int64_t layer_stamp) {
  Stage& s = stage(place);
  if (s.state == State::kFull) forget(s);
  s.state = State::kFilling;
  s.key = key;
  s.layer_stamp = layer_stamp;
  s.last_use = ++uses_;
  s.settled = false;
  where(key) = static_cast<int32_t>(place);
  options_.stats.add(Counter::kStageFills);
}

void StagePool::use(Stage& s) {
  s.leases++;
  s.last_use = ++uses_;
  s.layer_stamp = layer_stamp_;
  if (std::exchange(s.hinted, false)) options_.stats.add(Counter::kHintsUsed);
}

void StagePool::forget(Stage& s) {
  where(s.key) = -1;
  if (std::exchange(s.hinted, false)) options_.stats.add(Counter::kHintsWasted);
}

bool StagePool::all_leased() const {
  return std::all_of(stages_.begin(), stages_.end(),
                     [](const auto& s) { return s->leases > 0 || s->state == State::kFailed; });
}

Status StagePool::make_room() {
  const LockGuard growing(growth_mutex_);
  {
    const LockGuard lock(mutex_);
    const Activity activity("waits for a stage buffer");
    changed_.wait(mutex_, [&] { return least_recent(false) || all_leased(); });
    if (!all_leased()) return {};
  }
  ASSIGN_OR_RETURN(auto stage, make_stage());
  size_t n;
  {
    const LockGuard lock(mutex_);
    stages_.push_back(std::move(stage));
    n = stages_.size();
  }
  changed_.notify_all();
  if (n == kManyBuffers + 1) {
    log_warning("more than {} experts are in use at once, each in a stage buffer of {}", kManyBuffers,
                format_bytes(options_.buffer_bytes));
  }
  return {};
}

// The stage of a buffer that the caller fills, or holds a lease on: nobody else changes what these use of it.
StagePool::Stage& StagePool::own(uint32_t at) const {
  const LockGuard lock(mutex_);
  ASSERT(stage(at).leases > 0 || stage(at).state == State::kFilling);
  return stage(at);
}

bool StagePool::try_prepare(uint32_t at) {
  Stage& s = own(at);
  if (!s.fences.idle()) return false;
  s.incoming = s.buffer->submit_read(0, s.buffer->bytes());
  return true;
}

void StagePool::prepare(uint32_t at) {
  own(at).fences.wait([&] { options_.stats.add(Counter::kStageFenceWaits); });
  const bool prepared = try_prepare(at);
  ASSERT(prepared);  // nobody can queue a copy out of it
}

void StagePool::filled(uint32_t at, Status status, bool settled) {
  {
    const LockGuard lock(mutex_);
    Stage& s = stage(at);
    ASSERT(s.state == State::kFilling);
    if (settled) settle(s);
    if (status.ok()) {
      ASSERT(s.settled);
      s.state = State::kFull;
    } else {
      forget(s);
      s.state = State::kFailed;
      s.error = std::move(status);
      free_if_over(s);
    }
  }
  changed_.notify_all();
}

void StagePool::settled(uint32_t at) {
  {
    const LockGuard lock(mutex_);
    settle(stage(at));
    free_if_over(stage(at));
  }
  changed_.notify_all();
}

void StagePool::settle(Stage& s) {
  s.incoming.reap();
  s.settled = true;
}

void StagePool::free_if_over(Stage& s) {
  if (s.state != State::kFailed || s.leases > 0 || !s.settled) return;
  s.state = State::kFree;
  s.error = {};
}

Status StagePool::wait(uint32_t at) {
  Status status;
  {
    const LockGuard lock(mutex_);
    Stage& s = stage(at);
    ASSERT(s.leases > 0);
    const Activity activity("waits for an expert's read");
    changed_.wait(mutex_, [&] { return s.state != State::kFilling; });
    if (s.state == State::kFull) return {};
    status = s.error;
    s.leases--;
    free_if_over(s);
  }
  changed_.notify_all();
  return status;
}

void StagePool::release(uint32_t at) {
  {
    const LockGuard lock(mutex_);
    Stage& s = stage(at);
    ASSERT(s.leases > 0);
    if (--s.leases > 0) return;
    free_if_over(s);
  }
  changed_.notify_all();
}

void StagePool::note_async_read(uint32_t at, device::Stream& stream) {
  Stage& s = own(at);
  if (s.buffer->kind() == MemoryKind::kPinned) s.fences.note(stream);
}

StagePool::Place StagePool::place(uint32_t at) const {
  const LockGuard lock(mutex_);
  return {stage(at).buffer.get(), stage(at).start};
}

int64_t StagePool::n_buffers() const {
  const LockGuard lock(mutex_);
  return static_cast<int64_t>(stages_.size());
}

std::string StagePool::report() const {
  const LockGuard lock(mutex_);
  const auto n = static_cast<int64_t>(stages_.size());
  std::string text = format("{} stage buffers of {}", n, format_bytes(options_.buffer_bytes));
  if (n_pageable_ == 0) return text + ", page-locked";
  return text + format(", {} of them page-locked: {}", n - n_pageable_, why_pageable_);
}

void StagePool::end_start_up() {
  const LockGuard growing(growth_mutex_);
  const LockGuard lock(mutex_);
  const auto at_rest = [](const auto& s) { return s->state != State::kFilling && s->state != State::kFailed; };
  changed_.wait(mutex_, [&] { return std::all_of(stages_.begin(), stages_.end(), at_rest); });
  for (const auto& s : stages_) {
    ASSERT(s->leases == 0);
    s->fences.drop();
  }
  while (static_cast<int64_t>(stages_.size()) > options_.n_buffers) {
    Stage& last = *stages_.back();
    if (last.state == State::kFull) forget(last);
    if (last.buffer->kind() == MemoryKind::kPageable) n_pageable_--;
    stages_.pop_back();
  }
}

void StagePool::close() {
  const LockGuard lock(mutex_);
  for (const auto& s : stages_) {
    ASSERT(s->leases == 0);
    s->fences.drop();
  }
  stages_.clear();
}

}  // namespace strata::experts
