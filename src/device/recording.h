// A graph for devices that replay by enqueueing the same list again (host and simulated devices): a stream that
// records, and the recorded list.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "device/device.h"

namespace strata::device {

class Recording final : public Graph {
 public:
  // Calls `enqueue` with a stream of `device` that records instead of running.
  static std::unique_ptr<Recording> capture(Device* device, const std::function<void(Stream&)>& enqueue);

  void replay(Stream& stream) override;
  size_t size() const override { return nodes_.size(); }

  template <class F>
  void for_each_launch(const F& f) const {
    for (const Node& node : nodes_) {
      if (const Launch* launch = std::get_if<Launch>(&node)) f(*launch);
    }
  }

  struct Copy {
    Memory* dst;
    size_t dst_offset;
    const Memory* src;
    size_t src_offset;
    size_t bytes;
    SourceSite site;
  };
  struct Fill {
    Memory* dst;
    size_t offset;
    size_t bytes;
    SourceSite site;
  };
  struct Record {
    Event* event;
  };
  struct WaitEvent {
    const Event* event;
  };
  struct Task {
    const HostTask* task;
  };
  struct WaitTask {
    int task;
  };  // n-th task of the list
  using Node = std::variant<Launch, Copy, Fill, Record, WaitEvent, Task, WaitTask>;

 private:
  class Recorder;
  std::vector<Node> nodes_;
  std::vector<Ticket> tickets_;  // of the replay under way; sized once, so that a replay allocates nothing
};

}  // namespace strata::device
