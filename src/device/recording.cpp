#include "device/recording.h"

namespace strata::device {

class Recording::Recorder final : public Stream {
 public:
  Recorder(Device* device, Recording& recording) : Stream(device, "capture"), recording_(recording) {}

  void copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes,
            SourceSite site) override {
    recording_.nodes_.push_back(Copy{&dst, dst_offset, &src, src_offset, bytes, site});
  }
  void fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite site) override {
    recording_.nodes_.push_back(Fill{&dst, offset, bytes, site});
  }
  void record(Event& event) override { recording_.nodes_.push_back(Record{&event}); }
  void wait(const Event& event) override { recording_.nodes_.push_back(WaitEvent{&event}); }
  Ticket host_task(const HostTask& task) override {
    recording_.nodes_.push_back(Task{&task});
    recording_.tickets_.emplace_back();
    return {static_cast<int>(recording_.tickets_.size()) - 1};
  }
  void wait(Ticket ticket) override { recording_.nodes_.push_back(WaitTask{ticket.index}); }
  // A capture runs nothing, so there is nothing to abort or wait for.
  void abort(Error) override {}
  Status synchronize() override { return {}; }
  void reset() override {}

 private:
  void submit(const Launch& launch) override { recording_.nodes_.push_back(launch); }
  Recording& recording_;
};

std::unique_ptr<Recording> Recording::capture(Device* device, const std::function<void(Stream&)>& enqueue) {
  auto recording = std::make_unique<Recording>();
  Recorder recorder(device, *recording);
  enqueue(recorder);
  return recording;
}

void Recording::replay(Stream& stream) {
  size_t next_task = 0;
  struct Visitor {
    Stream& stream;
    std::vector<Ticket>& tickets;
    size_t& next_task;
    void operator()(const Launch& n) const { stream.submit(n); }
    void operator()(const Copy& n) const { stream.copy(*n.dst, n.dst_offset, *n.src, n.src_offset, n.bytes, n.site); }
    void operator()(const Fill& n) const { stream.fill_zero(*n.dst, n.offset, n.bytes, n.site); }
    void operator()(const Record& n) const { stream.record(*n.event); }
    void operator()(const WaitEvent& n) const { stream.wait(*n.event); }
    void operator()(const Task& n) const { tickets[next_task++] = stream.host_task(*n.task); }
    void operator()(const WaitTask& n) const { stream.wait(tickets[static_cast<size_t>(n.task)]); }
  };
  const Visitor visitor{stream, tickets_, next_task};
  for (const Node& node : nodes_) std::visit(visitor, node);
}

}  // namespace strata::device
