#include "device/sim/order.h"

#include <algorithm>
#include <atomic>

#include "base/assert.h"
#include "base/format.h"

namespace strata::device::sim {
namespace {

// Numbers of threads are never used again, unlike std::thread::id.
uint64_t this_thread_number() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1);
  return number;
}

}  // namespace

void Stamp::join(const Stamp& other) {
  if (seen.size() < other.seen.size()) seen.resize(other.seen.size());
  for (size_t i = 0; i < other.seen.size(); i++) seen[i] = std::max(seen[i], other.seen[i]);
  time_ns = std::max(time_ns, other.time_ns);
}

Order::Order() { add_sync_observer(this); }
Order::~Order() { remove_sync_observer(this); }

// A slot may be used again by a strand that is ordered after all that was done under it: then the old steps can't be
// taken for new ones.
uint32_t Order::take_slot(const Stamp& from) {
  for (uint32_t slot = 0; slot < strands_.size(); slot++) {
    if (strands_[slot] == nullptr && from.of(slot) >= last_step_[slot]) return slot;
  }
  strands_.emplace_back();
  last_step_.push_back(0);
  return static_cast<uint32_t>(strands_.size() - 1);
}

Strand* Order::open(StrandKind kind, const std::string& name, const Stamp& from) {
  const uint32_t slot = take_slot(from);
  auto strand = std::make_unique<Strand>();
  strand->kind = kind;
  strand->slot = slot;
  strand->name = &*names_.insert(name).first;
  strand->now = from;
  if (strand->now.seen.size() <= slot) strand->now.seen.resize(slot + 1);
  strand->now.seen[slot] = last_step_[slot] + 1;
  strands_[slot] = std::move(strand);
  return strands_[slot].get();
}

void Order::close(Strand* strand) {
  const uint32_t slot = strand->slot;
  ASSERT(strands_[slot].get() == strand);
  last_step_[slot] = strand->touched ? strand->step() : strand->step() - 1;
  strands_[slot].reset();
}

Strand& Order::current(const Stamp& from) {
  const uint64_t number = this_thread_number();
  Strand*& strand = threads_[number];
  if (strand == nullptr) strand = open(StrandKind::kHost, format("host thread {}", number), from);
  return *strand;
}

Strand* Order::work_for(Strand* strand) {
  Strand*& entry = threads_[this_thread_number()];
  Strand* before = entry;
  entry = strand;
  return before;
}

Stamp Order::release(Strand& strand) {
  Stamp stamp = strand.now;
  strand.now.seen[strand.slot]++;
  strand.touched = false;
  return stamp;
}

void Order::released(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  objects_[object].join(release(current()));
}
void Order::acquired(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = objects_.find(object);
  if (at != objects_.end()) current(at->second).now.join(at->second);
}
void Order::thread_ended() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = threads_.find(this_thread_number());
  if (at == threads_.end()) return;
  if (at->second != nullptr) close(at->second);
  threads_.erase(at);
}
void Order::forgotten(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  objects_.erase(object);
}

}  // namespace strata::device::sim
