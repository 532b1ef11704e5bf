// Files behind an interface, so that reads can be simulated and made to fail: real (real_file_system), in memory
// (MemoryFileSystem) and faulty (FaultyFileSystem) members. experts/ and gguf/ take a FileSystem by argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace strata {

// A whole file mapped read-only. Unmapped when destroyed. If the file is truncated while mapped, touching the lost
// pages does not end the process: a zero page takes their place and failed() becomes true for good (any thread).
class Mapping {
 public:
  virtual ~Mapping() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  virtual bool failed() const = 0;
  // Asks the system to begin to read these bytes, which lie inside; a hint, without an answer. Any thread.
  virtual void will_need(size_t offset, size_t bytes) { static_cast<void>(offset), static_cast<void>(bytes); }
};

// An open file for positioned reads. All calls are safe from several threads at once.
class File {
 public:
  virtual ~File() = default;
  virtual const std::string& path() const = 0;
  // Size in bytes when it was opened.
  virtual uint64_t size() const = 0;
  // One read: at most dst.size() bytes at `offset`; 0 at the end of the file. kInterrupted and short counts are legal
  // answers; kIo is a failure.
  virtual Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) = 0;
  virtual Result<std::unique_ptr<Mapping>> map() = 0;
  // Asks the system to begin to read these bytes into its cache; a hint, without an answer.
  virtual void will_need(uint64_t offset, uint64_t bytes) { static_cast<void>(offset), static_cast<void>(bytes); }
  // The system's descriptor, for reads that run beside the caller; -1 for what is no file of the system. Stays the
  // file's own.
  virtual int descriptor() const { return -1; }
  // Offsets, lengths and addresses of reads have to be multiples of this; above 1 only from open_direct().
  virtual size_t read_alignment() const { return 1; }

  // All of dst, retrying interrupted and short reads. An end of file inside dst is kIo; the message names file,
  // offset and length.
  Status read_exact(uint64_t offset, std::span<std::byte> dst);
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // kNotFound when nothing is there, kBadInput for a directory, kIo otherwise.
  virtual Result<std::unique_ptr<File>> open(const std::string& path) = 0;
  // For reads that go past the system's page cache. kUnsupported, with the reason, where that can't be: open() it then.
  // Else like open().
  virtual Result<std::unique_ptr<File>> open_direct(const std::string& path);
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  // Names (without the directory) of the entries of a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
};

FileSystem& real_file_system();

}  // namespace strata
