#include "device/cuda/cuda_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/format.h"
#include "base/log.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/cuda_stream.h"

namespace strata::device::cuda {
namespace {

constexpr int kComputeCapabilityMin = 75;
// What contexts and kernels take of a device at most. What the driver shows as used beyond it belongs to other
// programs.
constexpr uint64_t kContextBytesMax = kGiB;
constexpr size_t kPageBytes = 4096;
// Page-locked buffers from this size on are the system's memory on huge pages, locked afterwards: the driver makes its
// own a small page at a time (on an H200's host 2.3 GiB/s, against 6).
constexpr size_t kLargePinnedBytes = 64 * kMiB;
constexpr size_t kHugePageBytes = 2 * kMiB;

Status allocate_pinned(size_t bytes, const std::string& name, void*& address) {
  if (bytes < kLargePinnedBytes) return CUDA_CALL(cudaHostAlloc, name, &address, bytes, cudaHostAllocPortable);
  const std::optional<uint64_t> whole = checked_align_up(bytes, kHugePageBytes);
  address = whole ? std::aligned_alloc(kHugePageBytes, *whole) : nullptr;
  if (address == nullptr) return Error{ErrorCode::kNoMemory, "the system has no such memory"};
  madvise(address, *whole, MADV_HUGEPAGE);
  Status locked = CUDA_CALL(cudaHostRegister, name, address, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (!locked.ok()) std::free(address);
  return locked;
}

void free_pinned(void* address, size_t bytes) {
  if (bytes < kLargePinnedBytes) {
    cudaFreeHost(address);
    return;
  }
  cudaHostUnregister(address);
  std::free(address);
}

Error cannot_use(int ordinal, std::string_view why) {
  return {ErrorCode::kUnsupported, format("--device cuda:{}: {}", ordinal, why)};
}

// The driver is there and knows the device.
Status check_driver(int ordinal) {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    return cannot_use(ordinal, "this machine has no NVIDIA driver; install one, or use --device cpu");
  }
  int n_devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&n_devices);
  if (code == cudaErrorInsufficientDriver) {
    return cannot_use(ordinal,
                      format("the NVIDIA driver is too old: it knows CUDA {}.{}, this program needs {}.{}; "
                             "update the driver, or use --device cpu",
                             version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
  }
  if (code != cudaSuccess && code != cudaErrorNoDevice) {
    return cannot_use(ordinal, format("the NVIDIA driver answers: {}", cudaGetErrorString(code)));
  }
  if (n_devices == 0) return cannot_use(ordinal, "this machine has no CUDA device; use --device cpu");
  if (ordinal < n_devices) return {};
  return cannot_use(ordinal, n_devices == 1 ? std::string("there is one CUDA device, cuda:0")
                                            : format("the CUDA devices are cuda:0 to cuda:{}", n_devices - 1));
}

}  // namespace

Result<std::unique_ptr<Gpu>> open_gpu(int ordinal, const GpuOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::open(ordinal, options));
  return std::unique_ptr<Gpu>(std::move(device));
}

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal), name_(format("cuda:{}", ordinal)) {}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int ordinal, const GpuOptions& options) {
  // All kernels are loaded with the context, before anybody counts what memory is left. Once: other threads may be
  // opening devices.
  static const int set = setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  static_cast<void>(set);
  RETURN_IF_ERROR(check_driver(ordinal));
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
  RETURN_IF_ERROR(CUDA_CALL(cudaInitDevice, device->name_, ordinal, 0, 0));
  device->make_current();
  RETURN_IF_ERROR(device->read_attributes());
  device->context_.deterministic = options.deterministic;
  device->peer_copies_ = options.peer_copies;
  RETURN_IF_ERROR(CUDA_CALL(cudaStreamCreateWithFlags, "captures", &device->capture_stream_, cudaStreamNonBlocking));
  RETURN_IF_ERROR(
      CUDA_CALL(cudaEventCreateWithFlags, "the workspace", &device->workspace_free_, cudaEventDisableTiming));
  if (options.stream_memory_operations) RETURN_IF_ERROR(device->try_memory_ops());
  RETURN_IF_ERROR(device->take_budget(options));
  return device;
}

CudaDevice::~CudaDevice() {
  ASSERT(used_bytes_.load() == 0);
  ASSERT(host_bytes_.load() == 0);
  ASSERT(locked_bytes_.load() == 0);
  make_current();
  workspace_.reset();
  if (workspace_free_ != nullptr) cudaEventDestroy(workspace_free_);
  if (capture_stream_ != nullptr) cudaStreamDestroy(capture_stream_);
}

Status CudaDevice::read_attributes() {
  const auto read = [&](cudaDeviceAttr attribute, int& value) {
    return CUDA_CALL(cudaDeviceGetAttribute, name_, &value, attribute, ordinal_);
  };
  int major = 0, minor = 0, shared_bytes = 0, clock_khz = 0, bus_bits = 0, locks_read_only = 0;
  RETURN_IF_ERROR(read(cudaDevAttrComputeCapabilityMajor, major));
  RETURN_IF_ERROR(read(cudaDevAttrComputeCapabilityMinor, minor));
  RETURN_IF_ERROR(read(cudaDevAttrMultiProcessorCount, context_.n_sms));
  RETURN_IF_ERROR(read(cudaDevAttrMaxSharedMemoryPerBlockOptin, shared_bytes));
  RETURN_IF_ERROR(read(cudaDevAttrMemoryClockRate, clock_khz));
  RETURN_IF_ERROR(read(cudaDevAttrGlobalMemoryBusWidth, bus_bits));
  RETURN_IF_ERROR(read(cudaDevAttrHostRegisterReadOnlySupported, locks_read_only));
  locks_read_only_ = locks_read_only != 0;
  memory_bytes_per_second_ = 2e3 * clock_khz * bus_bits / 8;  // two transfers a clock
  context_.compute_capability = 10 * major + minor;
  context_.max_shared_bytes = static_cast<size_t>(shared_bytes);
  if (context_.compute_capability >= kComputeCapabilityMin) return {};
  return cannot_use(ordinal_, format("the device has compute capability {}.{}, and {}.{} is the least that is "
                                     "supported; use --device cpu",
                                     major, minor, kComputeCapabilityMin / 10, kComputeCapabilityMin % 10));
}

// That the driver has the operations does not say that the device takes them: one of each, on an idle stream.
Status CudaDevice::try_memory_ops() {
  ASSIGN_OR_RETURN(const auto signals, MappedSignals::create());
  const StreamMemoryOps found = find_stream_memory_ops();
  if (!found.available()) return {};
  const CUdeviceptr word = signals->device_address(signals->host().tasks.done);
  const bool taken = found.write(capture_stream_, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS &&
                     found.wait(capture_stream_, word, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
  RETURN_IF_ERROR(CUDA_CALL(cudaStreamSynchronize, name_, capture_stream_));
  if (taken && signals->host().tasks.done.load() == 1) memory_ops_ = found;
  if (!memory_ops_.available()) log_info("{} signals the host through host functions, which takes longer", name_);
  return {};
}

Status CudaDevice::take_budget(const GpuOptions& options) {
  size_t free_bytes = 0, total_bytes = 0;
  RETURN_IF_ERROR(CUDA_CALL(cudaMemGetInfo, name_, &free_bytes, &total_bytes));
  uint64_t usable = free_bytes;
  if (options.limit_bytes) {
    const uint64_t context_bytes = std::min<uint64_t>(total_bytes - free_bytes, kContextBytesMax);
    usable = std::min(usable, *options.limit_bytes - std::min(*options.limit_bytes, context_bytes));
  }
  if (usable <= options.reserve_bytes) {
    return Error{ErrorCode::kNoMemory,
                 format("--device {}: {} of its {} can be used, of which --vram-reserve-mib keeps {} free; end other "
                        "programs, raise --vram-budget-gib or lower --vram-reserve-mib",
                        name_, format_bytes(usable), format_bytes(total_bytes), format_bytes(options.reserve_bytes))};
  }
  budget_bytes_ = usable - options.reserve_bytes;
  log_info("{}: compute capability {}.{}, {} multiprocessors, {} of {} free, {} of them for the model", name_,
           context_.compute_capability / 10, context_.compute_capability % 10, context_.n_sms, format_bytes(free_bytes),
           format_bytes(total_bytes), format_bytes(budget_bytes_));
  return {};
}

template <class M>
class CudaDevice::Owned final : public M {
 public:
  Owned(CudaDevice& device, MemoryKind kind, std::string name, void* address, size_t bytes)
      : M(&device, kind, std::move(name), static_cast<std::byte*>(address), bytes), device_(device) {}
  // What still uses the memory is waited for by the driver.
  ~Owned() override {
    switch (this->kind()) {
      case MemoryKind::kDevice:
        cudaFree(this->address());
        break;
      case MemoryKind::kPinned:
        free_pinned(this->address(), this->bytes());
        break;
      case MemoryKind::kPageable:
        std::free(this->address());
        break;
    }
    counter(device_, this->kind()) -= this->bytes();
  }
  static std::atomic<uint64_t>& counter(CudaDevice& device, MemoryKind kind) {
    return kind == MemoryKind::kDevice ? device.used_bytes_ : device.host_bytes_;
  }

 private:
  CudaDevice& device_;
};

Result<std::unique_ptr<Buffer>> CudaDevice::allocate(size_t bytes, std::string name) {
  ASSERT(bytes > 0);
  RETURN_IF_ERROR(health());
  const uint64_t left = budget_bytes_ - used_bytes_.load();
  if (bytes > left) {
    return Error{ErrorCode::kNoMemory, format("{} for {} does not fit on {}: {} of {} are left", format_bytes(bytes),
                                              name, name_, format_bytes(left), format_bytes(budget_bytes_))};
  }
  make_current();
  void* address = nullptr;
  // Kernels read packed weights sixteen aligned bytes at a time.
  if (Status status = CUDA_CALL(cudaMalloc, name, &address, align_up(bytes, 16)); !status.ok()) {
    cudaGetLastError();  // it is told here, and must not be taken for that of a launch
    return Error{status.error().code, format("{} for {} are not there on {}: {}; give it more --vram-reserve-mib",
                                             format_bytes(bytes), name, name_, status.error().message)};
  }
  used_bytes_ += bytes;
  n_allocations_++;
  return std::unique_ptr<Buffer>(new Owned<Buffer>(*this, MemoryKind::kDevice, std::move(name), address, bytes));
}

Result<std::unique_ptr<HostBuffer>> CudaDevice::allocate_host(size_t bytes, MemoryKind kind, std::string name) {
  ASSERT(bytes > 0);
  ASSERT(kind != MemoryKind::kDevice);
  RETURN_IF_ERROR(health());
  void* address = nullptr;
  if (kind == MemoryKind::kPinned) {
    make_current();
    if (Status status = allocate_pinned(bytes, name, address); !status.ok()) {
      cudaGetLastError();
      return Error{ErrorCode::kNoMemory,
                   format("{} of page-locked memory for {}: {}", format_bytes(bytes), name, status.error().message)};
    }
  } else if (bytes > static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) ||
             posix_memalign(&address, kPageBytes, bytes) != 0) {
    return Error{ErrorCode::kNoMemory, format("the system has no {} for {}", format_bytes(bytes), name)};
  }
  host_bytes_ += bytes;
  n_allocations_++;
  return std::unique_ptr<HostBuffer>(new Owned<HostBuffer>(*this, kind, std::move(name), address, bytes));
}

class CudaDevice::Locked final : public HostBuffer {
 public:
  Locked(CudaDevice& device, std::string name, std::span<const std::byte> range)
      : HostBuffer(&device, MemoryKind::kPinned, std::move(name), const_cast<std::byte*>(range.data()), range.size()),
        device_(device) {
    device_.locked_bytes_ += range.size();
  }
  ~Locked() override {
    device_.make_current();
    cudaHostUnregister(address());
    device_.locked_bytes_ -= bytes();
  }

 private:
  CudaDevice& device_;
};

Result<std::unique_ptr<const HostBuffer>> CudaDevice::page_lock(std::span<const std::byte> range, MappedAs mapped,
                                                                std::string name) {
  ASSERT(!range.empty());
  RETURN_IF_ERROR(health());
  const bool read_only = mapped == MappedAs::kReadOnly;
  if (read_only && !locks_read_only_) {
    return Error{ErrorCode::kUnsupported, format("{} cannot page-lock {}, which is mapped read-only", name_, name)};
  }
  make_current();
  const unsigned flags =
      cudaHostRegisterPortable | cudaHostRegisterMapped | (read_only ? cudaHostRegisterReadOnly : 0u);
  if (Status status = CUDA_CALL(cudaHostRegister, name, const_cast<std::byte*>(range.data()), range.size(), flags);
      !status.ok()) {
    cudaGetLastError();  // it is told here, and must not be taken for that of a launch
    return Error{status.error().code, format("{} cannot be page-locked: {}", format_bytes(range.size()),
                                             status.error().message)};
  }
  return std::unique_ptr<const HostBuffer>(new Locked(*this, std::move(name), range));
}

bool CudaDevice::reaches(const Device& other) const {
  if (&other == this) return true;
  const auto* peer = dynamic_cast<const CudaDevice*>(&other);
  if (peer == nullptr || !peer_copies_) return false;
  if (peer->ordinal_ == ordinal_) return true;
  const LockGuard lock(mutex_);
  for (const auto& [ordinal, reached] : peers_) {
    if (ordinal == peer->ordinal_) return reached;
  }
  return peers_.emplace_back(peer->ordinal_, open_way_to(peer->ordinal_)).second;
}

// Without it the driver carries what is copied through memory of the host that it has for that, at a rate that it keeps
// to itself. The way is the process's: it may be open from a device that was closed.
bool CudaDevice::open_way_to(int peer) const {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, ordinal_, peer) != cudaSuccess || can == 0) return false;
  make_current();
  const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0);
  cudaGetLastError();  // it is answered here, and must not be taken for that of a launch
  return code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled;
}

std::unique_ptr<Stream> CudaDevice::make_stream(std::string name) { return CudaStream::create(*this, std::move(name)); }

std::unique_ptr<Event> CudaDevice::make_event() { return std::make_unique<CudaEvent>(*this); }

Result<std::unique_ptr<Graph>> CudaDevice::capture(const std::function<void(Stream&)>& enqueue) {
  RETURN_IF_ERROR(health());
  std::unique_ptr<Recording> recording = Recording::capture(this, enqueue);
  const Commands capturing = commands(capture_stream_);
  size_t workspace = 0;
  recording->for_each_launch(
      [&](const Launch& launch) { workspace = std::max(workspace, capturing.workspace_bytes(launch)); });
  make_current();
  RETURN_IF_ERROR(grow_workspace(workspace));
  // Host functions of a graph can't tell its replays apart.
  if (!memory_ops_.available()) return std::unique_ptr<Graph>(std::move(recording));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaGraph> graph,
                   CudaGraph::capture(*this, capturing, *recording, workspace > 0 ? workspace_ : nullptr));
  return std::unique_ptr<Graph>(std::move(graph));
}

// Graphs that were captured before keep the workspace that they were captured with.
Status CudaDevice::grow_workspace(size_t bytes) {
  if (bytes <= (workspace_ ? workspace_->bytes() : 0)) return {};
  ASSIGN_OR_RETURN(workspace_, Workspace::create(bytes, name_));
  n_allocations_++;
  return {};
}

Commands CudaDevice::commands(cudaStream_t stream) const {
  OpContext context = context_;
  context.stream = stream;
  return Commands(context, memory_ops_);
}

void CudaDevice::make_current() const {
  static thread_local int current = -1;
  if (current == ordinal_) return;
  // Fails for no device that was opened.
  if (cudaSetDevice(ordinal_) == cudaSuccess) current = ordinal_;
}

Status CudaDevice::take_workspace(CudaStream& stream) {
  const LockGuard lock(mutex_);
  if (workspace_user_ == &stream) return {};
  if (workspace_user_ != nullptr) {
    RETURN_IF_ERROR(CUDA_CALL(cudaEventRecord, "the workspace", workspace_free_, workspace_user_->handle()));
    RETURN_IF_ERROR(CUDA_CALL(cudaStreamWaitEvent, "the workspace", stream.handle(), workspace_free_, 0));
  }
  workspace_user_ = &stream;
  return {};
}

void CudaDevice::leave_workspace(const CudaStream& stream) {
  const LockGuard lock(mutex_);
  if (workspace_user_ == &stream) workspace_user_ = nullptr;
}

void CudaDevice::lose(Error error) {
  const LockGuard lock(mutex_);
  if (lost()) return;
  fault_ = std::move(error);
  lost_.store(true, std::memory_order_release);
}

Status CudaDevice::health() const {
  if (!lost()) [[likely]]
    return {};
  const LockGuard lock(mutex_);
  return fault_;
}

}  // namespace strata::device::cuda
