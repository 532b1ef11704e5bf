#include "experts/fences.h"

#include <algorithm>

#include "base/activity.h"
#include "base/mutation.h"

namespace strata::experts {

void FenceTable::note(device::Stream& stream) {
  const LockGuard lock(mutex_);
  Entry& entry = entry_for(stream);
  if (entry.event == nullptr || entry.device != stream.device()) {
    entry.event = stream.device()->make_event();
    entry.device = stream.device();
  }
  if (entry.event == nullptr) {
    // A failure of the stream is its user's to find; the copy is over either way.
    static_cast<void>(stream.synchronize());
    return;
  }
  stream.record(*entry.event);
  entry.stream = &stream;
  entry.noted = ++n_notes_;
  entry.live = true;
}

// The stream's own entry, else one whose copy is done, else the oldest, after its copy.
FenceTable::Entry& FenceTable::entry_for(device::Stream& stream) {
  if (mutated(Mutation::kOneFencePerBuffer)) return entries_[0];
  for (Entry& entry : entries_) {
    if (entry.live && entry.stream == &stream) return entry;
  }
  for (Entry& entry : entries_) {
    if (done(entry)) return entry;
  }
  Entry& oldest = *std::min_element(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.noted < b.noted; });
  finish(oldest);
  return oldest;
}

bool FenceTable::done(Entry& entry) {
  if (entry.live && entry.event->done()) entry.live = false;
  return !entry.live;
}

void FenceTable::finish(Entry& entry) {
  if (entry.live) {
    const Activity activity("waits for a copy to the device");
    entry.event->synchronize();
  }
  entry.live = false;
}

bool FenceTable::idle() {
  const LockGuard lock(mutex_);
  // Each is asked: asking also orders the copy before the caller.
  bool all = true;
  for (Entry& entry : entries_) all = done(entry) && all;
  return all;
}

void FenceTable::finish() {
  const LockGuard lock(mutex_);
  for (Entry& entry : entries_) finish(entry);
}

void FenceTable::drop() {
  const LockGuard lock(mutex_);
  for (Entry& entry : entries_) {
    finish(entry);
    entry = {};
  }
}

}  // namespace strata::experts
