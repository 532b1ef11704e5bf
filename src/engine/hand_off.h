// The way of hidden rows from a part of a model to the next one, on another device: one copy where the devices reach
// each other, else two through pinned memory of the host.
//
//   sender:   layers -> wait `taken` of the buffer -> copy to the buffer -> record `sent`
//   receiver: wait `sent` -> copy from the buffer -> record `taken` -> layers
//
// Two buffers take turns: the rows of one step may lie in one until the receiver comes to them, while the sender writes
// those of the next step to the other.
#pragma once

#include <array>
#include <memory>

#include "device/device.h"
#include "device/view.h"

namespace strata::engine {

// What a hand-off is made from; all of it outlives the hand-off.
struct HandOffSpec {
  device::Stream& from;  // of the part that sends, on its device
  device::Stream& to;    // of the part that receives
  int64_t max_rows = 0;
  int64_t dim = 0;
  bool peers = true;  // the devices reach each other
};

struct HandOffBytes {
  uint64_t device = 0;  // of the device that receives
  uint64_t host = 0;    // pinned
};

// Used by the thread that queues the steps. Its memory is allocated once.
class HandOff {
 public:
  // kNoMemory when there is no room for bytes_needed().
  static Result<std::unique_ptr<HandOff>> create(const HandOffSpec& spec);
  static HandOffBytes bytes_needed(int64_t max_rows, int64_t dim, bool peers);

  // Queues the way of these rows, packed, out of the sender. At most two steps are on their way at once.
  void send(const device::View<float>& rows);
  // Queues the way of the oldest step's rows that are on their way to where the receiver computes.
  void receive(const device::View<float>& rows);
  // Nothing is on its way any more. Both streams have been synchronised.
  void clear() { n_sent_ = n_received_ = 0; }

 private:
  struct Way {
    std::unique_ptr<device::Memory> memory;  // [max_rows][dim]
    std::unique_ptr<device::Event> sent;     // on the sender's stream
    std::unique_ptr<device::Event> taken;    // on the receiver's
  };
  explicit HandOff(const HandOffSpec& spec) : spec_(spec) {}
  Status allocate();

  HandOffSpec spec_;
  std::array<Way, 2> ways_;
  uint64_t n_sent_ = 0, n_received_ = 0;
};

}  // namespace strata::engine
