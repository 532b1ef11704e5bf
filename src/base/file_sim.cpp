#include "base/file_sim.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <set>

#include "base/format.h"
#include "base/random.h"

namespace strata {
namespace {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

class MemoryMapping final : public Mapping {
 public:
  explicit MemoryMapping(SharedBytes bytes) : bytes_(std::move(bytes)) {}
  std::span<const std::byte> bytes() const override { return *bytes_; }
  bool failed() const override { return false; }

 private:
  SharedBytes bytes_;
};

class MemoryFile final : public File {
 public:
  MemoryFile(std::string path, SharedBytes bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_->size(); }

  Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
    if (offset >= bytes_->size()) return size_t{0};
    const size_t n = std::min(dst.size(), bytes_->size() - static_cast<size_t>(offset));
    if (n > 0) std::memcpy(dst.data(), bytes_->data() + offset, n);
    return n;
  }
  Result<std::unique_ptr<Mapping>> map() override {
    return std::unique_ptr<Mapping>(std::make_unique<MemoryMapping>(bytes_));
  }

 private:
  std::string path_;
  SharedBytes bytes_;
};

// What the paths of all files below `directory` start with.
std::string directory_prefix(const std::string& directory) {
  return directory.ends_with('/') ? directory : directory + "/";
}

}  // namespace

void MemoryFileSystem::add_file(const std::string& path, std::vector<std::byte> bytes) {
  ASSERT(!path.empty());
  ASSERT(!path.ends_with('/'));
  auto shared = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const LockGuard lock(mutex_);
  files_[path] = std::move(shared);
}

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(path);
  if (found != files_.end()) return std::unique_ptr<File>(std::make_unique<MemoryFile>(path, found->second));
  if (is_directory_locked(path)) {
    return Error{ErrorCode::kBadInput, format("cannot open {}: it is a directory", printable(path))};
  }
  return Error{ErrorCode::kNotFound, format("cannot open {}: no such file", printable(path))};
}

bool MemoryFileSystem::exists(const std::string& path) {
  const LockGuard lock(mutex_);
  return files_.contains(path) || is_directory_locked(path);
}

bool MemoryFileSystem::is_directory(const std::string& path) {
  const LockGuard lock(mutex_);
  return is_directory_locked(path);
}

bool MemoryFileSystem::is_directory_locked(const std::string& path) const {
  if (path.empty()) return false;
  const std::string prefix = directory_prefix(path);
  const auto found = files_.lower_bound(prefix);
  return found != files_.end() && found->first.starts_with(prefix);
}

Result<std::vector<std::string>> MemoryFileSystem::list(const std::string& directory) {
  const LockGuard lock(mutex_);
  if (!is_directory_locked(directory)) {
    return Error{ErrorCode::kNotFound, format("cannot list directory {}: no such directory", printable(directory))};
  }
  const std::string prefix = directory_prefix(directory);
  std::set<std::string> names;
  for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix); ++it) {
    const std::string below = it->first.substr(prefix.size());
    names.insert(below.substr(0, below.find('/')));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

struct FaultyFileSystem::State {
  State(Clock& the_clock, FaultPlan the_plan) : clock(the_clock), plan(std::move(the_plan)) {}

  // What befalls read number n. `random` is that read's own.
  std::optional<Fault> fault_of(uint64_t n, Random& random) const {
    for (const FaultPlan::At& at : plan.at) {
      if (at.read == n) return at.fault;
    }
    double drawn = random.uniform();
    for (size_t fault = 0; fault < kFaults; ++fault) {
      if (drawn < plan.probability[fault]) return static_cast<Fault>(fault);
      drawn -= plan.probability[fault];
    }
    return std::nullopt;
  }

  Clock& clock;
  const FaultPlan plan;
  std::atomic<uint64_t> n_reads{0};
  std::array<std::atomic<uint64_t>, kFaults> n_injected{};
};

namespace {

class FaultyFile final : public File {
 public:
  FaultyFile(std::unique_ptr<File> inner, std::shared_ptr<FaultyFileSystem::State> state)
      : inner_(std::move(inner)), state_(std::move(state)) {}
  const std::string& path() const override { return inner_->path(); }
  uint64_t size() const override { return inner_->size(); }
  Result<std::unique_ptr<Mapping>> map() override { return inner_->map(); }

  Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
    const uint64_t n = state_->n_reads.fetch_add(1, std::memory_order_relaxed);
    Random random(state_->plan.seed + n * 0xd1342543de82ef95u);  // an odd factor: seeds of neighbours lie far apart
    const std::optional<Fault> fault = state_->fault_of(n, random);
    if (!fault || (*fault == Fault::kShortRead && dst.size() < 2)) return inner_->read_some(offset, dst);
    state_->n_injected[static_cast<size_t>(*fault)].fetch_add(1, std::memory_order_relaxed);
    switch (*fault) {
      case Fault::kIoError: return injected(ErrorCode::kIo, offset, dst.size(), "I/O error");
      case Fault::kInterrupted: return injected(ErrorCode::kInterrupted, offset, dst.size(), "interrupted");
      case Fault::kShortRead: return inner_->read_some(offset, dst.first(1 + random.below(dst.size() - 1)));
      case Fault::kStall: state_->clock.sleep_ns(state_->plan.stall_ns); break;
    }
    return inner_->read_some(offset, dst);
  }

 private:
  Error injected(ErrorCode code, uint64_t offset, size_t length, const char* what) const {
    return {code, format("cannot read {} bytes at offset {} of {}: {} (injected)", length, offset, printable(path()),
                         what)};
  }

  std::unique_ptr<File> inner_;
  std::shared_ptr<FaultyFileSystem::State> state_;
};

}  // namespace

FaultyFileSystem::FaultyFileSystem(FileSystem& inner, Clock& clock, FaultPlan plan)
    : inner_(inner), state_(std::make_shared<State>(clock, std::move(plan))) {}

Result<std::unique_ptr<File>> FaultyFileSystem::open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, inner_.open(path));
  return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file), state_));
}
bool FaultyFileSystem::exists(const std::string& path) { return inner_.exists(path); }
bool FaultyFileSystem::is_directory(const std::string& path) { return inner_.is_directory(path); }
Result<std::vector<std::string>> FaultyFileSystem::list(const std::string& directory) { return inner_.list(directory); }

uint64_t FaultyFileSystem::n_reads() const { return state_->n_reads.load(std::memory_order_relaxed); }
uint64_t FaultyFileSystem::n_injected(Fault fault) const {
  return state_->n_injected[static_cast<size_t>(fault)].load(std::memory_order_relaxed);
}

}  // namespace strata
