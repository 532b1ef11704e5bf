#include "device/sim/sim_stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/format.h"
#include "device/host/host_ops.h"
#include "device/sim/sim_device.h"

namespace strata::device::sim {
namespace {

bool in_reach(const Core& core, const SimDevice& device, const Memory& memory) {
  return device_index(core, memory) < 0 || device.reaches(*memory.owner());
}

void add_use(const Core& core, std::vector<MemoryRecord*>& uses, const Memory& memory) {
  if (MemoryRecord* record = MemoryRecord::of(core, memory)) uses.push_back(record);
}

// A stamp of what the calling thread has done, for a job that it queues.
Stamp stamp_of_caller(Core& core) {
  const std::lock_guard<std::mutex> lock(core.order.mutex());
  return core.order.release(core.order.current());
}

// The calling thread has waited for it.
void caller_acquires(Core& core, const Completion& completion) {
  const std::lock_guard<std::mutex> lock(core.order.mutex());
  core.order.current().now.join(completion.stamp);
}

uint64_t bytes_of(const Range& range) { return static_cast<uint64_t>(range.rows) * range.row_bytes; }

Range flat_range(const Memory& memory, size_t offset, size_t bytes, bool write) {
  return {&memory, offset, bytes, 1, bytes, write};
}

// The ranges that an operation reaches through tables, held to the memory they lie in.
class FootprintSink final : public RangeSink {
 public:
  void add(const Range& r) override {
    ASSERT(r.memory->holds(r.offset, static_cast<size_t>(r.rows - 1) * r.stride_bytes + r.row_bytes));
    ranges.push_back(r);
    bytes += bytes_of(r);
  }
  // Each range once: rows that use the same expert name its bytes again.
  const std::vector<Range>& distinct() {
    const auto key = [](const Range& r) {
      return std::make_tuple(r.memory, r.offset, r.row_bytes, r.rows, r.stride_bytes, r.write);
    };
    std::sort(ranges.begin(), ranges.end(), [&](const Range& a, const Range& b) { return key(a) < key(b); });
    const auto same = [&](const Range& a, const Range& b) { return key(a) == key(b); };
    ranges.erase(std::unique(ranges.begin(), ranges.end(), same), ranges.end());
    return ranges;
  }
  std::vector<Range> ranges;
  uint64_t bytes = 0;
};

}  // namespace

bool SimEvent::done() const {
  const std::shared_ptr<Completion> round = latest();
  if (!round) return true;
  {
    const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
    if (!round->done) return false;
  }
  caller_acquires(core_, *round);
  return true;
}
void SimEvent::synchronize() const {
  const std::shared_ptr<Completion> round = latest();
  if (!round) return;
  core_.schedule.wait(*round);
  caller_acquires(core_, *round);
}
std::shared_ptr<Completion> SimEvent::latest() const {
  const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
  return latest_;
}
void SimEvent::set_latest(std::shared_ptr<Completion> round) {
  const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
  latest_ = std::move(round);
}

struct SimStream::TaskRun {
  TaskRun(const HostTask& its_task, Lane* lane) : task(its_task), done(lane) {}
  const HostTask& task;
  Status result;  // written before `done`
  Completion done;
};

struct SimStream::CopyJob {
  Memory* dst;
  size_t dst_offset;
  const Memory* src;
  size_t src_offset;
  size_t bytes;
  SourceSite site;
  std::vector<std::byte> taken;  // the bytes of a pageable source
};

SimStream::SimStream(SimDevice& device, std::string name)
    : Stream(&device, std::move(name)),
      sim_device_(device),
      core_(device.core()),
      compute_({.n_threads = 1, .spin_us = 0}, core_.kernels) {
  const std::string full_name = device.name() + "/" + this->name();
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    const Stamp start = core_.order.release(core_.order.current());
    strand_ = core_.order.open(StrandKind::kStream, full_name, start);
    tasks_strand_ = core_.order.open(StrandKind::kTasks, full_name + " tasks", start);
  }
  operations_ = std::make_unique<Lane>(core_.schedule, full_name);
  host_tasks_ = std::make_unique<Lane>(core_.schedule, full_name + " tasks");
}

SimStream::~SimStream() {
  // Operations hand tasks over, so they end first.
  operations_.reset();
  host_tasks_.reset();
  const std::lock_guard<std::mutex> lock(core_.order.mutex());
  core_.order.close(strand_);
  core_.order.close(tasks_strand_);
}

bool SimStream::fails_at(FaultPoint point, const char* what) {
  auto fault = core_.faults.visit(point, format("{}/{}: {}", sim_device_.name(), name(), what));
  if (!fault) return false;
  abort(*std::move(fault));
  return true;
}

std::optional<std::string> SimStream::note(Strand& strand, const Range& range, const char* what,
                                           SourceSite site) const {
  MemoryRecord* record = core_.checker ? MemoryRecord::of(core_, *range.memory) : nullptr;
  if (record == nullptr) return std::nullopt;
  return core_.checker->note(strand, record->accesses, range, what, site);
}

// What races does not run, and what follows it on the stream drains: no byte is touched by two threads at once.
void SimStream::abort_for(std::string race) { abort({ErrorCode::kInternal, std::move(race)}); }

void SimStream::queue(const char* what, std::vector<MemoryRecord*> uses, std::function<void(const Stamp&)> run,
                      bool indirect) {
  Job job;
  job.indirect = indirect;
  job.name = what;
  job.uses = std::move(uses);
  job.run = [run = std::move(run), stamp = stamp_of_caller(core_)] { run(stamp); };
  operations_->push(std::move(job));
}

// Both the one who queued the wait and what is waited for are ordered before what follows it on the stream.
void SimStream::queue_wait(const char* what, std::shared_ptr<Completion> completion, std::function<void()> after) {
  Job job;
  job.name = what;
  job.waits_for = completion;
  job.run = [this, completion = std::move(completion), after = std::move(after), queued = stamp_of_caller(core_)] {
    if (failed()) return;
    {
      const std::lock_guard<std::mutex> lock(core_.order.mutex());
      strand_->now.join(queued);
      strand_->now.join(completion->stamp);
    }
    after();
  };
  operations_->push(std::move(job));
}

void SimStream::submit(const Launch& launch) {
  std::vector<MemoryRecord*> uses;
  for (int i = 0; i < launch.n_ranges; i++) add_use(core_, uses, *launch.ranges[i].memory);
  const bool indirect = host::op_row(launch.op).footprint != nullptr;
  queue(
      launch.name, std::move(uses), [this, launch](const Stamp& queued) { run_launch(launch, queued); }, indirect);
}

void SimStream::run_launch(const Launch& launch, const Stamp& queued) {
  if (failed() || fails_at(FaultPoint::kOperation, launch.name)) return;
  if (auto race = begin_launch(launch, queued)) return abort_for(*std::move(race));
  if (Status status = compute_.reserve_scratch(sim_device_.scratch_floats()); !status.ok()) {
    return abort(std::move(status).error());
  }
  host::op_row(launch.op).run(launch.args, compute_);
}

// The accesses and the time of an operation. Its tables are read only once it is known that nobody writes them.
std::optional<std::string> SimStream::begin_launch(const Launch& launch, const Stamp& queued) {
  const std::lock_guard<std::mutex> lock(core_.order.mutex());
  strand_->now.join(queued);
  Touched touched;
  std::optional<std::string> race;
  const auto touch = [&](const Range& range) {
    touched.bytes += bytes_of(range);
    if (auto found = note(*strand_, range, launch.name, launch.site); found && !race) race = std::move(found);
  };
  for (int i = 0; i < launch.n_ranges; i++) touch(launch.ranges[i]);
  if (race) return race;
  if (const host::OpRow& row = host::op_row(launch.op); row.footprint != nullptr) {
    FootprintSink footprint;
    row.footprint(launch.args, footprint);
    touched.indirect_bytes = footprint.bytes;
    for (const Range& range : footprint.distinct()) touch(range);
  }
  if (race) return race;
  const Cost cost = cost_of(launch, touched);
  const DeviceSpec& spec = core_.spec.devices[static_cast<size_t>(sim_device_.index())];
  const int64_t duration =
      std::max(duration_ns(cost.flops, spec.compute_flops_per_s), duration_ns(cost.bytes, spec.mem_bytes_per_s));
  strand_->now.time_ns = later(strand_->now.time_ns, duration);
  return std::nullopt;
}

void SimStream::copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes,
                     SourceSite site) {
  ASSERT(dst.holds(dst_offset, bytes));
  ASSERT(src.holds(src_offset, bytes));
  ASSERT(in_reach(core_, sim_device_, dst));
  ASSERT(in_reach(core_, sim_device_, src));
  CopyJob job{&dst, dst_offset, &src, src_offset, bytes, site, {}};
  std::vector<MemoryRecord*> uses;
  add_use(core_, uses, dst);
  if (src.kind() == MemoryKind::kPageable) {
    std::optional<std::string> race;
    {
      const std::lock_guard<std::mutex> lock(core_.order.mutex());
      race = note(core_.order.current(), flat_range(src, src_offset, bytes, false), "copy from pageable memory", site);
    }
    if (race) return abort_for(*std::move(race));
    job.taken.assign(src.address() + src_offset, src.address() + src_offset + bytes);
  } else {
    add_use(core_, uses, src);
  }
  const bool synchronises = dst.kind() == MemoryKind::kPageable;
  queue("copy", std::move(uses), [this, job = std::move(job)](const Stamp& queued) { run_copy(job, queued); });
  if (synchronises) reach_end(*operations_, *strand_);
}

void SimStream::run_copy(const CopyJob& job, const Stamp& queued) {
  if (failed() || fails_at(FaultPoint::kCopy, "copy")) return;
  const bool taken = job.src->kind() == MemoryKind::kPageable;
  std::optional<std::string> race;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    strand_->now.join(queued);
    if (!taken) race = note(*strand_, flat_range(*job.src, job.src_offset, job.bytes, false), "copy", job.site);
    auto other = note(*strand_, flat_range(*job.dst, job.dst_offset, job.bytes, true), "copy", job.site);
    if (!race) race = std::move(other);
    strand_->now.time_ns = copy_end_ns(job, strand_->now.time_ns);
  }
  if (race) return abort_for(*std::move(race));
  if (job.bytes == 0) return;
  const std::byte* from = taken ? job.taken.data() : job.src->address() + job.src_offset;
  std::memmove(job.dst->address() + job.dst_offset, from, job.bytes);
}

// Between devices over their peer link, between host and device over the device's link; within a memory, each byte is
// read and written.
int64_t SimStream::copy_end_ns(const CopyJob& job, int64_t ready_ns) {
  const int dst = device_index(core_, *job.dst);
  const int src = device_index(core_, *job.src);
  if (dst == src) {
    const uint64_t rate =
        dst < 0 ? core_.spec.host_bytes_per_s : core_.spec.devices[static_cast<size_t>(dst)].mem_bytes_per_s;
    return later(ready_ns, duration_ns(2 * uint64_t{job.bytes}, rate));
  }
  const bool peers = dst >= 0 && src >= 0;
  const auto device = static_cast<size_t>(std::max(dst, src));
  Link& link = peers ? core_.peer_link(static_cast<size_t>(dst), static_cast<size_t>(src)) : core_.links[device];
  const uint64_t rate = peers ? core_.spec.peer_bytes_per_s : core_.spec.devices[device].link_bytes_per_s;
  const int64_t duration = duration_ns(job.bytes, rate);
  return later(link.reserve(ready_ns, duration), duration);
}

void SimStream::fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite site) {
  ASSERT(dst.holds(offset, bytes));
  std::vector<MemoryRecord*> uses;
  add_use(core_, uses, dst);
  queue("fill_zero", std::move(uses), [this, range = flat_range(dst, offset, bytes, true), site](const Stamp& queued) {
    run_fill(range, site, queued);
  });
}

void SimStream::run_fill(const Range& range, SourceSite site, const Stamp& queued) {
  if (failed() || fails_at(FaultPoint::kCopy, "fill_zero")) return;
  std::optional<std::string> race;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    strand_->now.join(queued);
    const DeviceSpec& spec = core_.spec.devices[static_cast<size_t>(sim_device_.index())];
    strand_->now.time_ns = later(strand_->now.time_ns, duration_ns(bytes_of(range), spec.mem_bytes_per_s));
    race = note(*strand_, range, "fill_zero", site);
  }
  if (race) return abort_for(*std::move(race));
  std::memset(range.memory->address() + range.offset, 0, range.row_bytes);
}

void SimStream::record(Event& event) {
  const auto round = std::make_shared<Completion>(operations_.get());
  // Waits that are queued from now on mean this round.
  ASSERT(dynamic_cast<SimEvent*>(&event) != nullptr);  // else an event of another kind of device
  static_cast<SimEvent&>(event).set_latest(round);
  queue("record", {}, [this, round](const Stamp& queued) {
    const bool runs = !failed() && !fails_at(FaultPoint::kRecord, "event record");
    Stamp reached;
    {
      const std::lock_guard<std::mutex> lock(core_.order.mutex());
      if (runs) strand_->now.join(queued);
      reached = core_.order.release(*strand_);
    }
    core_.schedule.complete(*round, std::move(reached));  // a failed stream still passes its events on
  });
}

void SimStream::wait(const Event& event) {
  ASSERT(dynamic_cast<const SimEvent*>(&event) != nullptr);
  std::shared_ptr<Completion> round = static_cast<const SimEvent&>(event).latest();
  if (round) queue_wait("wait event", std::move(round), [] {});
}

Ticket SimStream::host_task(const HostTask& task) {
  std::vector<MemoryRecord*> uses;
  for (const Range& range : task.ranges) {
    ASSERT(range.memory->kind() != MemoryKind::kDevice);
    add_use(core_, uses, *range.memory);
  }
  const auto run = std::make_shared<TaskRun>(task, host_tasks_.get());
  Ticket ticket;
  {
    const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
    last_ticket_ = last_ticket_ == std::numeric_limits<int>::max() ? 0 : last_ticket_ + 1;
    ticket.index = last_ticket_;
    tasks_[ticket.index] = run;
  }
  queue("start task", std::move(uses), [this, run](const Stamp& queued) { start_task(run, queued); });
  return ticket;
}

void SimStream::start_task(const std::shared_ptr<TaskRun>& run, const Stamp& queued) {
  if (failed()) {
    core_.schedule.complete(run->done, {});
    return;
  }
  Stamp forked;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    strand_->now.join(queued);
    forked = core_.order.release(*strand_);
  }
  Job job;
  job.name = run->task.name;
  job.can_block = true;
  for (const Range& range : run->task.ranges) add_use(core_, job.uses, *range.memory);
  job.run = [this, run, forked = std::move(forked)] { run_task(*run, forked); };
  host_tasks_->push(std::move(job));
}

// The accesses of a task count from its start to its end: at both, they have to be ordered.
std::optional<std::string> SimStream::note_task(const HostTask& task) {
  const std::string what = format("task {}", task.name);
  std::optional<std::string> race;
  for (const Range& range : task.ranges) {
    if (auto found = note(*tasks_strand_, range, what.c_str(), {}); found && !race) race = std::move(found);
  }
  return race;
}

void SimStream::run_task(TaskRun& run, const Stamp& forked) {
  if (failed()) {
    core_.schedule.complete(run.done, {});
    return;
  }
  const WorkFor scope(core_.order, tasks_strand_);
  std::optional<std::string> race;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    tasks_strand_->now.join(forked);
    race = note_task(run.task);
    uint64_t bytes = 0;
    for (const Range& range : run.task.ranges) bytes += bytes_of(range);
    tasks_strand_->now.time_ns = later(tasks_strand_->now.time_ns, duration_ns(bytes, core_.spec.host_bytes_per_s));
  }
  if (auto fault = core_.faults.visit(FaultPoint::kTask, run.task.name)) {
    run.result = *std::move(fault);
  } else if (!race) {
    run.result = device::run_task(run.task, [] { return false; });
  }
  Stamp reached;
  {
    const std::lock_guard<std::mutex> lock(core_.order.mutex());
    auto at_end = note_task(run.task);
    if (!race) race = std::move(at_end);
    reached = core_.order.release(*tasks_strand_);
  }
  if (race) run.result = Error{ErrorCode::kInternal, *std::move(race)};
  core_.schedule.complete(run.done, std::move(reached));
}

void SimStream::wait(Ticket ticket) {
  ASSERT(ticket.index >= 0);
  std::shared_ptr<TaskRun> run;
  {
    const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
    const auto at = tasks_.find(ticket.index);
    if (at == tasks_.end()) return;  // it ended well before the last synchronize(), or its failure was reset
    run = at->second;
  }
  queue_wait("wait task", std::shared_ptr<Completion>(run, &run->done), [this, run] {
    if (!run->result.ok()) abort(run->result.error());
  });
}

void SimStream::abort(Error error) {
  {
    const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
    if (!error_) error_ = std::move(error);
  }
  operations_->set_draining(true);
  host_tasks_->set_draining(true);
}

void SimStream::reach_end(Lane& lane, Strand& strand) {
  const auto point = std::make_shared<Completion>(&lane);
  Job job;
  job.name = "reach end";
  job.run = [this, point, &strand] {
    Stamp reached;
    {
      const std::lock_guard<std::mutex> lock(core_.order.mutex());
      reached = core_.order.release(strand);
    }
    core_.schedule.complete(*point, std::move(reached));
  };
  lane.push(std::move(job));
  core_.schedule.wait(*point);
  caller_acquires(core_, *point);
}

Status SimStream::synchronize() {
  reach_end(*operations_, *strand_);
  reach_end(*host_tasks_, *tasks_strand_);  // has all tasks by now
  const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
  std::erase_if(tasks_, [](const auto& entry) { return entry.second->done.done && entry.second->result.ok(); });
  if (error_) return *error_;
  return {};
}

void SimStream::reset() {
  {
    const std::lock_guard<std::mutex> lock(core_.schedule.mutex());
    error_.reset();
    tasks_.clear();
  }
  operations_->set_draining(false);
  host_tasks_->set_draining(false);
}

}  // namespace strata::device::sim
