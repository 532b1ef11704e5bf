// What must have happened before bytes that copies were queued out of may be overwritten.
#pragma once

#include <array>
#include <memory>

#include "base/mutex.h"
#include "device/device.h"

namespace strata::experts {

// The copies out of one buffer, by the streams they were queued on. A stream runs in order, so its latest copy is the
// last to be done, and one event a stream is enough; one event a *buffer* is not: recorded again on a fast stream, it
// hides the copy of a slow one, whose bytes a refill then overwrites on their way.
//
// Streams may belong to several devices. A stream that was noted outlives the table, or is synchronised before it dies.
// Calls are safe from several threads.
class FenceTable {
 public:
  ~FenceTable() { drop(); }

  // A copy was just queued on the stream. With kEntries other streams in the table, waits for the oldest copy: none is
  // ever forgotten. Where the stream's device has no event to give, waits for the stream.
  void note(device::Stream& stream);
  // Whether all copies are done. Never blocks.
  bool idle();
  // Waits for all copies; whether there was one to wait for. `before_waiting` is called first if so.
  template <class Call>
  void wait(const Call& before_waiting) {
    if (idle()) return;
    before_waiting();
    finish();
  }
  // Waits for all copies and destroys the events.
  void drop();

  static constexpr size_t kEntries = 4;

 private:
  struct Entry {
    device::Stream* stream = nullptr;
    std::unique_ptr<device::Event> event;
    device::Device* device = nullptr;  // of the event
    uint64_t noted = 0;                // when, counted in notes
    bool live = false;                 // the event may stand for a copy that is not done
  };

  void finish();
  // With the mutex held.
  Entry& entry_for(device::Stream& stream);
  static bool done(Entry& entry);
  static void finish(Entry& entry);

  Mutex mutex_;
  std::array<Entry, kEntries> entries_;
  uint64_t n_notes_ = 0;
};

}  // namespace strata::experts
