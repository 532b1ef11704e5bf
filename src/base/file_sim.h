// Simulated members of the FileSystem family: files in memory, and a wrapper that makes reads fail.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"

namespace strata {

// Files that exist only here. Directories are implied: "/a/b" makes "/a" and "/" directories. All calls are safe from
// several threads. A file that is replaced stays as it was for those who have it open or mapped.
class MemoryFileSystem final : public FileSystem {
 public:
  // Adds or replaces a file. `path` is a file's name, not empty and without a slash at the end.
  void add_file(const std::string& path, std::vector<std::byte> bytes);

  Result<std::unique_ptr<File>> open(const std::string& path) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  bool is_directory_locked(const std::string& path) const;

  Mutex mutex_;
  std::map<std::string, Bytes> files_;  // by path
};

enum class Fault {
  kIoError,      // the read fails with kIo
  kShortRead,    // fewer bytes than asked for, at least one
  kInterrupted,  // the read fails with kInterrupted
  kStall,        // the read takes stall_ns of the clock's time, then succeeds
};
inline constexpr size_t kFaults = 4;

// Which reads suffer what. Reads are counted from 0 over all files of the file system, in the order they arrive.
struct FaultPlan {
  struct At {
    uint64_t read;
    Fault fault;
  };
  std::vector<At> at = {};               // these reads, whatever the probabilities say
  double probability[kFaults] = {};      // of each Fault for any other read; their sum is at most 1
  uint64_t seed = 0;                     // what befalls the n-th read depends on the seed and n alone
  int64_t stall_ns = 0;
};

// Passes everything on to `inner`, except for the reads that the plan spoils. Mappings are passed on as they are.
// `inner` must outlive this, `clock` also the files opened through this. All calls are safe from several threads.
class FaultyFileSystem final : public FileSystem {
 public:
  FaultyFileSystem(FileSystem& inner, Clock& clock, FaultPlan plan);

  Result<std::unique_ptr<File>> open(const std::string& path) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;

  uint64_t n_reads() const;
  uint64_t n_injected(Fault fault) const;

  struct State;  // shared with the open files

 private:
  FileSystem& inner_;
  std::shared_ptr<State> state_;
};

}  // namespace strata
