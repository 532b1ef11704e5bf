#include "device/host/host_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/format.h"
#include "base/mutex.h"
#include "device/host/host_ops.h"
#include "device/recording.h"

namespace strata::device::host {
namespace {

class HostEvent final : public Event {
 public:
  bool done() const override { return true; }
  void synchronize() const override {}
};

#if defined(STRATA_DEBUG)
// Holds the ranges that an operation reaches through a block table to the memory they lie in.
class BoundsSink final : public RangeSink {
 public:
  void add(const Range& r) override {
    ASSERT(r.offset + static_cast<size_t>(r.rows - 1) * r.stride_bytes + r.row_bytes <= r.memory->bytes());
  }
};
#endif

class HostStream final : public Stream {
 public:
  HostStream(HostDevice* device, std::string name) : Stream(device, std::move(name)), compute_(device->compute()) {}

  void copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes, SourceSite) override {
    ASSERT(dst.holds(dst_offset, bytes));
    ASSERT(src.holds(src_offset, bytes));
    if (!failed()) std::memcpy(dst.address() + dst_offset, src.address() + src_offset, bytes);
  }
  void fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite) override {
    ASSERT(dst.holds(offset, bytes));
    if (!failed()) std::memset(dst.address() + offset, 0, bytes);
  }

  // Everything queued is done when the call returns, so events order nothing further.
  void record(Event&) override {}
  void wait(const Event&) override {}

  Ticket host_task(const HostTask& task) override {
    last_ticket_ = last_ticket_ == std::numeric_limits<int>::max() ? 0 : last_ticket_ + 1;
    const Ticket ticket{last_ticket_};
    if (failed()) return ticket;
    if (Status status = run_task(task, [] { return false; }); !status.ok()) {
      failed_tasks_.push_back({ticket.index, std::move(status).error()});
    }
    return ticket;
  }
  void wait(Ticket ticket) override {
    ASSERT(ticket.index >= 0);
    for (const FailedTask& task : failed_tasks_) {
      if (task.ticket == ticket.index) abort(task.error);
    }
  }

  void abort(Error error) override {
    const LockGuard lock(mutex_);
    if (!failed()) error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
  Status synchronize() override {
    if (!failed()) return {};
    const LockGuard lock(mutex_);
    return error_;
  }
  void reset() override {
    const LockGuard lock(mutex_);
    failed_.store(false, std::memory_order_release);
    failed_tasks_.clear();
    error_ = {};
  }

 private:
  struct FailedTask {
    int ticket;
    Error error;
  };

  bool failed() const { return failed_.load(std::memory_order_acquire); }

  void submit(const Launch& launch) override {
    if (failed()) return;
    const OpRow& row = op_row(launch.op);
#if defined(STRATA_DEBUG)
    BoundsSink bounds;
    if (row.footprint != nullptr) row.footprint(launch.args, bounds);
#endif
    row.run(launch.args, compute_);
  }

  Compute& compute_;
  int last_ticket_ = -1;
  std::vector<FailedTask> failed_tasks_;  // since the last reset
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;  // guards error_ against abort() from other threads
  Error error_;
};

constexpr size_t kHugePage = 2 * kMiB;
// Buffers share address ranges of this size, so that small ones lie on huge pages too. Only pages that are touched cost
// memory.
constexpr size_t kRangeBytes = 64 * kMiB;
constexpr size_t kBufferAlignment = 4096;

}  // namespace

// Address space that buffers are cut from one behind the other; it goes back with the last of them.
class HostDevice::AddressRange {
 public:
  // null when the system has none. Starts at a huge page's border.
  static std::shared_ptr<AddressRange> make(size_t bytes) {
    void* address = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return nullptr;
    auto range = std::make_shared<AddressRange>();
    range->mapped_ = static_cast<std::byte*>(address);
    range->mapped_bytes_ = bytes + kHugePage;
    range->next_ = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<uintptr_t>(address), kHugePage));
    range->end_ = range->next_ + bytes;
    if (bytes >= kHugePage) madvise(range->next_, bytes, MADV_HUGEPAGE);
    return range;
  }
  AddressRange() = default;
  ~AddressRange() { munmap(mapped_, mapped_bytes_); }
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  bool has_room(size_t bytes) const { return bytes <= static_cast<size_t>(end_ - next_); }
  std::byte* take(size_t bytes) {
    std::byte* at = next_;
    next_ += align_up(bytes, kBufferAlignment);
    return at;
  }

 private:
  std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

template <class M>
class HostDevice::Owned final : public M {
 public:
  Owned(HostDevice* device, MemoryKind kind, std::string name, std::byte* address, size_t bytes,
        std::shared_ptr<AddressRange> range)
      : M(device, kind, std::move(name), address, bytes), range_(std::move(range)) {}
  ~Owned() override { static_cast<HostDevice*>(this->owner())->used_bytes_ -= this->bytes(); }

 private:
  std::shared_ptr<AddressRange> range_;
};

HostDevice::HostDevice(const HostDeviceOptions& options)
    : budget_bytes_(options.budget_bytes), compute_(options.threads, *options.kernels) {}

HostDevice::~HostDevice() { ASSERT(used_bytes_ == 0); }

template <class M>
Result<std::unique_ptr<M>> HostDevice::make(size_t bytes, MemoryKind kind, std::string name) {
  ASSERT(bytes > 0);
  if (bytes > budget_bytes_ - used_bytes_) {
    return Error{
        ErrorCode::kNoMemory,
        format("{} for {} does not fit: {} of {} RAM are left; lower --ctx or use --experts mapped",
               format_bytes(bytes), name, format_bytes(budget_bytes_ - used_bytes_), format_bytes(budget_bytes_))};
  }
  const bool addressable = bytes <= std::numeric_limits<ptrdiff_t>::max() - 2 * kHugePage;
  const size_t rounded = addressable ? align_up(bytes, kBufferAlignment) : 0;
  std::shared_ptr<AddressRange> range = rounded <= kRangeBytes / 2 ? shared_range_ : nullptr;
  if (!addressable || !range || !range->has_room(rounded)) {
    range = nullptr;
    if (addressable) range = AddressRange::make(rounded <= kRangeBytes / 2 ? kRangeBytes : rounded);
    if (!range) return Error{ErrorCode::kNoMemory, format("the system has no {} for {}", format_bytes(bytes), name)};
    if (rounded <= kRangeBytes / 2) shared_range_ = range;
  }
  std::byte* address = range->take(rounded);
#if defined(STRATA_DEBUG)
  std::memset(address, 0xFF, bytes);  // NaN for whoever reads floats that nothing wrote
#endif
  used_bytes_ += bytes;
  return std::unique_ptr<M>(new Owned<M>(this, kind, std::move(name), address, bytes, std::move(range)));
}

Result<std::unique_ptr<Buffer>> HostDevice::allocate(size_t bytes, std::string name) {
  return make<Buffer>(bytes, MemoryKind::kDevice, std::move(name));
}
Result<std::unique_ptr<HostBuffer>> HostDevice::allocate_host(size_t bytes, MemoryKind kind, std::string name) {
  ASSERT(kind != MemoryKind::kDevice);
  return make<HostBuffer>(bytes, kind, std::move(name));
}
Result<std::unique_ptr<const HostBuffer>> HostDevice::page_lock(std::span<const std::byte> range, MappedAs,
                                                                std::string name) {
  return std::unique_ptr<const HostBuffer>(new HostBuffer(
      this, MemoryKind::kPinned, std::move(name), const_cast<std::byte*>(range.data()), range.size()));
}
std::unique_ptr<Stream> HostDevice::make_stream(std::string name) {
  return std::make_unique<HostStream>(this, std::move(name));
}
std::unique_ptr<Event> HostDevice::make_event() { return std::make_unique<HostEvent>(); }
Result<std::unique_ptr<Graph>> HostDevice::capture(const std::function<void(Stream&)>& enqueue) {
  std::unique_ptr<Recording> recording = Recording::capture(this, enqueue);
  int64_t scratch = 0;
  recording->for_each_launch(
      [&](const Launch& launch) { scratch = std::max(scratch, op_row(launch.op).scratch_floats(launch.args)); });
  RETURN_IF_ERROR(compute_.reserve_scratch(scratch));
  return std::unique_ptr<Graph>(std::move(recording));
}

}  // namespace strata::device::host
