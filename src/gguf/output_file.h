// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace strata::gguf {

// Writes to PATH.tmp; commit() syncs it to the disk and renames it. Without a successful commit the destructor removes
// it and PATH is left as it was. Failures are kIo and name the path. One thread.
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
  Status flush();
  Status write_all(std::span<const std::byte> bytes);
  Error failure(const char* what, const std::string& path) const;

  const std::string path_;
  const std::string tmp_path_;
  int fd_ = -1;
  bool pending_ = false;  // PATH.tmp exists and is ours to remove
  uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace strata::gguf
