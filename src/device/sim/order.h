// Who has seen what. Everything that runs one step after another is a strand: a thread of the host, a stream, the tasks
// of a stream, a read in flight. A strand numbers its own steps, and knows for each other strand up to which step that
// one is ordered before itself: a vector clock (Lamport; Fidge; Mattern). Simulated time travels along the same edges.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/sync.h"

namespace strata::device::sim {

// What is ordered before a point of a strand, and when that point is reached.
struct Stamp {
  std::vector<uint64_t> seen;  // by slot of a strand: its last step that is ordered before; slots beyond the end are 0
  int64_t time_ns = 0;

  uint64_t of(uint32_t slot) const { return slot < seen.size() ? seen[slot] : 0; }
  void join(const Stamp& other);
};

enum class StrandKind { kHost, kStream, kTasks, kRead };

struct Strand {
  StrandKind kind = StrandKind::kHost;
  uint32_t slot = 0;
  const std::string* name = nullptr;  // kept by Order, also when the strand is gone
  Stamp now;                          // its own entry is the number of the step under way
  bool touched = false;               // whether that step has accessed memory

  uint64_t step() const { return now.seen[slot]; }
};

// All strands of a machine. Whoever calls a member, or reads or changes a strand, holds mutex(); the overrides of
// SyncObserver, called from any thread, take it themselves.
class Order final : public SyncObserver {
 public:
  Order();
  ~Order() override;

  std::mutex& mutex() { return mutex_; }

  // A strand that starts where `from` ends. It lives until it is closed.
  Strand* open(StrandKind kind, const std::string& name, const Stamp& from);
  void close(Strand* strand);
  // The open strand that has this slot.
  Strand& at(uint32_t slot) { return *strands_[slot]; }

  // The strand that the calling thread works for. A thread that was never heard of before gets one that starts where
  // `from` ends.
  Strand& current(const Stamp& from = {});
  // The calling thread works for `strand` from now on; returns for whom it did before (null: nobody).
  Strand* work_for(Strand* strand);

  // Ends the step of `strand` under way; the stamp is what someone who waits for it has to join.
  Stamp release(Strand& strand);

  void released(const void* object) override;
  void acquired(const void* object) override;
  void forgotten(const void* object) override;
  void thread_ended() override;

 private:
  uint32_t take_slot(const Stamp& from);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Strand>> strands_;  // by slot; null where closed
  std::vector<uint64_t> last_step_;               // by slot, of the strands that had it before
  std::set<std::string> names_;
  std::unordered_map<uint64_t, Strand*> threads_;   // by number of the thread
  std::unordered_map<const void*, Stamp> objects_;  // what was released into mutexes and the like
};

// The calling thread works for `strand` while this lives.
class WorkFor {
 public:
  WorkFor(Order& order, Strand* strand) : order_(order) {
    const std::lock_guard<std::mutex> lock(order.mutex());
    before_ = order.work_for(strand);
  }
  ~WorkFor() {
    const std::lock_guard<std::mutex> lock(order_.mutex());
    order_.work_for(before_);
  }
  WorkFor(const WorkFor&) = delete;
  WorkFor& operator=(const WorkFor&) = delete;

 private:
  Order& order_;
  Strand* before_;
};

}  // namespace strata::device::sim
