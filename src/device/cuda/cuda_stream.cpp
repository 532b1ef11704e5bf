#include "device/cuda/cuda_stream.h"

#include <limits>

#include "base/format.h"
#include "device/cuda/cuda_graph.h"

namespace strata::device::cuda {
namespace {

// Tickets are numbers of tasks without their highest bit.
constexpr uint32_t kTicketBits = std::numeric_limits<int>::max();

Ticket ticket_of(uint32_t number) { return {static_cast<int>(number & kTicketBits)}; }

// The latest task with this ticket, of those up to `last`.
uint32_t number_of(Ticket ticket, uint32_t last) {
  return last - ((last - static_cast<uint32_t>(ticket.index)) & kTicketBits);
}

cudaEvent_t handle_of(const Event& event) {
  ASSERT(dynamic_cast<const CudaEvent*>(&event) != nullptr);  // else an event of another kind of device
  return static_cast<const CudaEvent&>(event).handle();
}

}  // namespace

// Hosts that wait for events wait for long copies: they sleep.
CudaEvent::CudaEvent(CudaDevice& device) : device_(device) {
  device_.make_current();
  if (cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming | cudaEventBlockingSync) != cudaSuccess) {
    handle_ = nullptr;
  }
}
CudaEvent::~CudaEvent() {
  if (handle_ != nullptr) cudaEventDestroy(handle_);
}
bool CudaEvent::done() const { return handle_ == nullptr || cudaEventQuery(handle_) != cudaErrorNotReady; }
void CudaEvent::synchronize() const {
  if (handle_ != nullptr) cudaEventSynchronize(handle_);
}

std::unique_ptr<CudaStream> CudaStream::create(CudaDevice& device, std::string name) {
  device.make_current();
  cudaStream_t stream = nullptr;
  Status status = CUDA_CALL(cudaStreamCreateWithFlags, name, &stream, cudaStreamNonBlocking);
  std::unique_ptr<MappedSignals> signals;
  if (status.ok()) {
    Result<std::unique_ptr<MappedSignals>> made = MappedSignals::create();
    if (made.ok()) signals = std::move(made).value();
    if (!made.ok()) status = made.error();
  }
  if (!status.ok()) device.lose(std::move(status).error());
  return std::unique_ptr<CudaStream>(new CudaStream(device, std::move(name), stream, std::move(signals)));
}

CudaStream::CudaStream(CudaDevice& device, std::string name, cudaStream_t stream,
                       std::unique_ptr<MappedSignals> signals)
    : Stream(&device, std::move(name)),
      device_(device),
      signals_(std::move(signals)),
      commands_(device.commands(stream)),
      tasks_(*this) {}

CudaStream::~CudaStream() {
  static_cast<void>(synchronize());
  device_.leave_workspace(*this);
  if (handle() != nullptr) cudaStreamDestroy(handle());
}

void CudaStream::submit(const Launch& launch) {
  const LockGuard order(order_);
  if (failed()) return;
  device_.make_current();
  const Workspace* workspace = nullptr;
  if (const size_t bytes = commands_.workspace_bytes(launch); bytes > 0) {
    workspace = device_.workspace().get();
    ASSERT(workspace != nullptr && workspace->bytes() >= bytes);  // a shape that was never captured
    if (!check(device_.take_workspace(*this), launch.name, launch.site)) return;
  }
  if (check(commands_.run(launch, workspace), launch.name, launch.site)) note(launch.name, launch.site);
}

// The driver takes small pageable sources before the call returns, and large ones or destinations on its own terms:
// only waiting for the copy is sure on every system.
void CudaStream::copy(Memory& dst, size_t dst_offset, const Memory& src, size_t src_offset, size_t bytes,
                      SourceSite site) {
  {
    const LockGuard order(order_);
    if (failed()) return;
    device_.make_current();
    if (!check(commands_.copy(dst, dst_offset, src, src_offset, bytes), "copy", site)) return;
    note("copy", site);
  }
  if (src.kind() != MemoryKind::kPageable && dst.kind() != MemoryKind::kPageable) return;
  if (const cudaError_t code = cudaStreamSynchronize(handle()); code != cudaSuccess) lose_device(code);
}

void CudaStream::fill_zero(Memory& dst, size_t offset, size_t bytes, SourceSite site) {
  const LockGuard order(order_);
  if (failed()) return;
  device_.make_current();
  if (check(commands_.fill_zero(dst, offset, bytes), "fill_zero", site)) note("fill_zero", site);
}

// A failed stream still passes its events on.
void CudaStream::record(Event& event) {
  const cudaEvent_t handle_of_event = handle_of(event);
  const LockGuard order(order_);
  if (device_.lost() || handle_of_event == nullptr) return;
  device_.make_current();
  check(CUDA_CALL(cudaEventRecord, "an event", handle_of_event, handle()), "event record", {});
}

void CudaStream::wait(const Event& event) {
  const cudaEvent_t handle_of_event = handle_of(event);
  const LockGuard order(order_);
  if (failed() || handle_of_event == nullptr) return;
  device_.make_current();
  check(CUDA_CALL(cudaStreamWaitEvent, "an event", handle(), handle_of_event, 0), "wait for an event", {});
}

// Of a failed stream: the ticket of the task before, which whoever waits for it after a reset finds done.
Ticket CudaStream::host_task(const HostTask& task) {
  const LockGuard order(order_);
  if (failed()) return ticket_of(n_tasks_);
  device_.make_current();
  TaskWords& words = signals_->host().tasks;
  const uint32_t number = n_tasks_ + 1;
  if (!check(commands_.signal(*signals_, words.requested, number), task.name, {})) return ticket_of(n_tasks_);
  n_tasks_ = number;
  tasks_.push({.task = &task, .words = &words, .number = number});
  return ticket_of(number);
}

void CudaStream::wait(Ticket ticket) {
  ASSERT(ticket.index >= 0);
  const LockGuard order(order_);
  if (failed()) return;
  device_.make_current();
  const uint32_t number = number_of(ticket, n_tasks_);
  if (std::optional<Error> error = tasks_.await(number)) return abort(*std::move(error));
  check(commands_.await_done(*signals_, number), "wait for a host task", {});
}

void CudaStream::replay(const CudaGraph& graph) {
  const LockGuard order(order_);
  if (failed()) return;
  device_.make_current();
  if (graph.uses_workspace() && !check(device_.take_workspace(*this), "a replayed graph", {})) return;
  // A launch may return no sooner than the graph ends (under compute-sanitizer it does), which takes answers.
  for (const TaskRequest& request : graph.tasks()) tasks_.push(request);
  if (!check(CUDA_CALL(cudaGraphLaunch, name(), graph.handle(), handle()), "a replayed graph", {})) {
    return withdraw(graph.tasks());
  }
  note("a replayed graph", {});
}

// The stream has failed, so they are answered without being run, once the last one is asked for. The words may be those
// of an earlier replay that still runs.
void CudaStream::withdraw(std::span<const TaskRequest> tasks) {
  if (tasks.empty()) return;
  cudaStreamSynchronize(handle());
  TaskWords& words = *tasks.back().words;
  words.requested.store(tasks.back().number, std::memory_order_release);
  tasks_.wait_idle();
  words.done.store(0, std::memory_order_relaxed);
}

void CudaStream::abort(Error error) {
  const LockGuard lock(mutex_);
  if (!failed_.load()) error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

// While tasks remain the thread sleeps: the cores are theirs.
Status CudaStream::synchronize() {
  tasks_.wait_idle();
  if (!device_.lost()) {
    device_.make_current();
    if (const cudaError_t code = cudaStreamSynchronize(handle()); code != cudaSuccess) lose_device(code);
  }
  RETURN_IF_ERROR(device_.health());
  if (!failed_.load(std::memory_order_acquire)) return {};
  const LockGuard lock(mutex_);
  return error_;
}

void CudaStream::reset() {
  const LockGuard lock(mutex_);
  tasks_.forget_failures();
  error_ = {};
  failed_.store(false, std::memory_order_release);
}

void CudaStream::probe() {
  device_.make_current();
  const cudaError_t code = cudaStreamQuery(handle());
  if (code != cudaSuccess && code != cudaErrorNotReady) lose_device(code);
}

bool CudaStream::check(Status status, const char* operation, SourceSite site) {
  if (status.ok()) [[likely]]
    return true;
  if (const cudaError_t code = cudaStreamQuery(handle()); code != cudaSuccess && code != cudaErrorNotReady) {
    lose_device(code);
    return false;
  }
  const std::string at = site.line > 0 ? format(" (queued at {}:{})", site.file, site.line) : std::string();
  abort({status.error().code,
         format("{}/{}: {}{} could not be queued: {}", device_.name(), name(), operation, at, status.error().message)});
  return false;
}

void CudaStream::lose_device(cudaError_t code) {
  device_.lose({ErrorCode::kInternal,
                format("{}/{}: {} ({}){}; the device is of no more use to this program, which has to be started again",
                       device_.name(), name(), cudaGetErrorString(code), cudaGetErrorName(code), suspect())});
}

void CudaStream::note(const char* operation, SourceSite site) {
  if (!device_.memory_ops().available()) return;
  const uint32_t number = n_queued_.load() + 1;
  Queued& queued = queued_[number % kQueuedKept];
  queued.name = operation;
  queued.file = site.file;
  queued.line = site.line;
  n_queued_ = number;
  check(commands_.signal(*signals_, signals_->host().progress, number), operation, site);
}

std::string CudaStream::suspect() const {
  if (!device_.memory_ops().available() || signals_ == nullptr) return {};
  const uint32_t n_queued = n_queued_.load();
  const uint32_t n_ahead = n_queued - signals_->host().progress.load(std::memory_order_acquire);
  if (n_ahead == 0 || n_ahead > kQueuedKept) return {};
  const Queued& first = queued_[(n_queued - n_ahead + 1) % kQueuedKept];
  const int line = first.line;
  if (line == 0) return format(", in {} or after it (--graph off tells which operation)", first.name.load());
  return format(", first suspect {} queued at {}:{}", first.name.load(), first.file.load(), line);
}

}  // namespace strata::device::cuda
