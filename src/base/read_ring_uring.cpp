#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/direct_io.h"
#include "base/format.h"
#include "base/mapping.h"
#include "base/read_ring.h"

namespace strata {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// How soon reads that the system did not take are offered again.
constexpr int kRetryMs = 1;

class UringRing final : public ReadRing {
 public:
  static Result<std::unique_ptr<ReadRing>> create(int depth) {
    auto ring = std::make_unique<UringRing>();
    ring->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ring->wake_fd_ < 0) return refused(errno);
    if (const int error = ::io_uring_queue_init(static_cast<unsigned>(depth), &ring->ring_, 0); error < 0) {
      return refused(-error);
    }
    ring->made_ = true;
    return std::unique_ptr<ReadRing>(std::move(ring));
  }
  UringRing() = default;
  ~UringRing() override {
    ASSERT(reads_.empty());
    if (made_) ::io_uring_queue_exit(&ring_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
  }
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  void start(const RingRead& read) override {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    ASSERT(entry != nullptr);  // the ring has as many as may be under way
    const int fd = read.file->descriptor();
    ASSERT(fd >= 0);
    // The read that every kernel with io_uring has.
    ::io_uring_prep_readv(entry, fd, read.into.data(), static_cast<unsigned>(read.into.size()), read.offset);
    ::io_uring_sqe_set_data64(entry, read.id);
    reads_.emplace(read.id, read);
  }

  // What the system does not take (EAGAIN, EBUSY) stays in the ring.
  void flush() override { ::io_uring_submit(&ring_); }

  void wait(int64_t max_wait_ns, std::vector<RingResult>& results) override {
    if (::io_uring_cq_ready(&ring_) == 0) block(max_wait_ns);
    io_uring_cqe* done = nullptr;
    while (::io_uring_peek_cqe(&ring_, &done) == 0) {
      results.push_back(result_of(*done));
      ::io_uring_cqe_seen(&ring_, done);
    }
  }

  void wake() override {
    const uint64_t one = 1;
    // It fails only when the counter is full: then it wakes already.
    [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof one);
  }

 private:
  static Error refused(int error) {
    return {ErrorCode::kUnsupported, format("io_uring is not to be had: {}", errno_text(error))};
  }

  void block(int64_t max_wait_ns) {
    int64_t ms = max_wait_ns < 0 ? -1 : (max_wait_ns + kNsPerMs - 1) / kNsPerMs;
    if (::io_uring_sq_ready(&ring_) > 0) ms = ms < 0 ? kRetryMs : std::min<int64_t>(ms, kRetryMs);
    pollfd fds[] = {{ring_.ring_fd, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (::poll(fds, 2, static_cast<int>(std::min<int64_t>(ms, INT32_MAX))) <= 0) return;
    if ((fds[1].revents & POLLIN) == 0) return;
    uint64_t n_wakes;
    [[maybe_unused]] const ssize_t n = ::read(wake_fd_, &n_wakes, sizeof n_wakes);
  }

  RingResult result_of(const io_uring_cqe& done) {
    const uint64_t id = ::io_uring_cqe_get_data64(&done);
    const auto at = reads_.find(id);
    ASSERT(at != reads_.end());
    const RingRead read = at->second;
    reads_.erase(at);
    if (done.res >= 0) return {id, static_cast<size_t>(done.res)};
    size_t bytes = 0;
    for (const iovec& segment : read.into) bytes += segment.iov_len;
    return {id, read_error(read.file->path(), read.offset, bytes, -done.res)};
  }

  io_uring ring_{};
  bool made_ = false;
  int wake_fd_ = -1;
  std::unordered_map<uint64_t, RingRead> reads_;  // under way, for messages
};

}  // namespace

Result<std::unique_ptr<ReadRing>> make_uring(int depth) { return UringRing::create(depth); }

}  // namespace strata
