#include "cli/bench/drive_speed.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <numeric>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/thread_pool.h"
#include "cli/bench/pages.h"
#include "cli/bench/spread.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

// Of a read: about the size of an expert's matrix, and a multiple of every block size.
constexpr uint64_t kPieceBytes = kMiB;
constexpr uint64_t kMaxBytes = 2 * kGiB;
constexpr int64_t kMaxDurationNs = 3'000'000'000;
// Reads under way at once, as many as of experts.
constexpr int kReaders = 16;
// Where pieces land in turn: like the buffers of experts, more than what caches hold of them, for a drive that copies
// into a cache seems faster than it is.
constexpr uint64_t kLandings = 128;

// A step through n places, one of which is at 0, that visits each once and scatters them.
uint64_t scattering_step(uint64_t n) {
  uint64_t step = std::max<uint64_t>(n * 5 / 8, 1);
  while (std::gcd(step, n) != 1) step++;
  return step;
}

Error failure(const char* what, const std::string& path, int number) {
  const ErrorCode code = number == ENOENT || number == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {code, format("cannot {} {}: {}", what, path_text(path), std::generic_category().message(number))};
}

// A file open for reading past the cache, or as near to it as the file system comes.
class Drive {
 public:
  static Result<Drive> open(const std::string& path) {
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a pipe without a writer must not hold us up
    Drive drive(path, ::open(path.c_str(), kFlags | O_DIRECT));
    drive.direct_ = drive.fd_ >= 0;
    if (drive.fd_ < 0 && errno == EINVAL) drive.fd_ = ::open(path.c_str(), kFlags);
    if (drive.fd_ < 0) return failure("open", path, errno);
    struct stat status {};
    if (::fstat(drive.fd_, &status) != 0) return failure("look at", path, errno);
    if (!S_ISREG(status.st_mode) || status.st_size == 0) {
      return Error{ErrorCode::kBadInput, format("--file {}: this is not a file with bytes to read", path_text(path))};
    }
    drive.bytes_ = static_cast<uint64_t>(status.st_size);
    if (!drive.direct_) static_cast<void>(::posix_fadvise(drive.fd_, 0, 0, POSIX_FADV_DONTNEED));
    return drive;
  }
  Drive(Drive&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_), bytes_(other.bytes_),
                                  direct_(other.direct_) {
    other.fd_ = -1;
  }
  ~Drive() {
    if (fd_ >= 0) ::close(fd_);
  }
  Drive& operator=(Drive&&) = delete;

  uint64_t bytes() const { return bytes_; }
  bool direct() const { return direct_; }
  Error read_failure(int number) const { return failure("read", path_, number); }

  // Fills the piece, or as much of it as the file has. Sets `error` to the system's number of a failure.
  uint64_t read(uint64_t offset, std::span<std::byte> piece, int& error) const {
    uint64_t done = 0;
    while (done < piece.size()) {
      const ssize_t n = ::pread(fd_, piece.data() + done, piece.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error = errno;
      // A direct read that is not whole ended with the file, and the next one would not be aligned.
      if (n <= 0 || direct_) return done + static_cast<uint64_t>(std::max<ssize_t>(n, 0));
      done += static_cast<uint64_t>(n);
    }
    return done;
  }

 private:
  Drive(const std::string& path, int fd) : path_(path), fd_(fd) {}

  std::string path_;
  int fd_;
  uint64_t bytes_ = 0;
  bool direct_ = false;
};

}  // namespace

Result<DriveSpeed> measure_drive(const std::string& path) {
  ASSIGN_OR_RETURN(const Drive drive, Drive::open(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<Pages> pages, Pages::allocate(kLandings * kPieceBytes));
  std::ranges::fill(pages->bytes(), std::byte{0});  // the pages are there before the clock runs
  ThreadPool readers({.n_threads = kReaders});
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<int> error{0};
  const int64_t begin_ns = real_clock().now_ns();
  const uint64_t n_pieces = (drive.bytes() + kPieceBytes - 1) / kPieceBytes;
  const uint64_t step = scattering_step(n_pieces);
  const auto n_reads = static_cast<int64_t>(std::min(n_pieces, kMaxBytes / kPieceBytes));
  readers.for_each(n_reads, 1, [&](int64_t i, int64_t, int) {
    if (error != 0 || real_clock().now_ns() - begin_ns > kMaxDurationNs) return;
    int failed = 0;
    const uint64_t landing = static_cast<uint64_t>(i) % kLandings;
    const auto piece = pages->bytes().subspan(landing * kPieceBytes, kPieceBytes);
    const uint64_t place = static_cast<uint64_t>(i) * step % n_pieces;
    read_bytes += drive.read(place * kPieceBytes, piece, failed);
    if (failed != 0) error = failed;
  });
  const int64_t duration_ns = real_clock().now_ns() - begin_ns;
  if (error != 0) return drive.read_failure(error);
  return DriveSpeed{.path = path,
                    .file_bytes = drive.bytes(),
                    .read_bytes = read_bytes,
                    .bytes_per_second = per_second(static_cast<double>(read_bytes), duration_ns),
                    .direct = drive.direct()};
}

}  // namespace strata::cli
