// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/ending.h"

namespace strata {

// Writes to a file of another name, which nobody can foretell, in the folder of PATH; commit() syncs it to the disk and
// renames it. Without a successful commit the destructor removes it and PATH is left as it was; so does a signal, see
// ending.h. The file has the permissions of the one that it replaces. A symbolic link is followed: the file that it
// points to is replaced.
//
// What exists under PATH and is no regular file (a pipe, a device, /dev/stdout) can't be replaced: it is written to at
// once. A named pipe without a reader makes open() wait for one.
//
// Failures are kIo and name PATH; kBadInput for a folder. One thread.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status open();
  Status append(std::span<const std::byte> bytes);
  Status append_zeros(uint64_t n);
  Status commit();
  uint64_t size() const { return size_; }  // bytes appended

 private:
  Status open_directly(int fd);
  Status open_beside(std::optional<unsigned> mode);
  Status flush();
  Status write_all(std::span<const std::byte> bytes);
  Status close();
  Error failure(const char* what, int error) const;

  const std::string path_;
  std::string target_;  // path_ with links resolved
  std::string temporary_;
  std::optional<UnfinishedFile> unfinished_;  // `temporary_` exists and is ours to remove
  int fd_ = -1;
  uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

// Whether writing a result to `output` would destroy `input`: both are the same regular file, whatever their names.
// "-" as input is standard input.
bool would_replace(const std::string& output, const std::string& input);

// Whether a result with this name goes to standard output.
bool is_standard_output(const std::string& output);

}  // namespace strata
