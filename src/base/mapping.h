// Mappings of real files that survive the loss of their file's pages. Outside of base/, File::map() and SharedFile make
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"

namespace strata {

// Maps the first `size` bytes of `fd`, which may be closed afterwards; `path` is for messages. The first call installs
// the process's SIGBUS handler. A thread that touches the mapping must not have SIGBUS blocked.
Result<std::unique_ptr<Mapping>> map_file(int fd, uint64_t size, const std::string& path);

// A mapping whose bytes its owner may write, and so change the file, until it has made them read-only.
class WritableMapping : public Mapping {
 public:
  virtual std::span<std::byte> writable_bytes() = 0;
  virtual Status make_read_only() = 0;
};

// Which bytes of a file are mapped and in what pages.
struct MapRange {
  uint64_t offset = 0;      // a multiple of page_bytes
  uint64_t bytes = 0;       // at least one; of a file whose pages are large, a multiple of them
  uint64_t page_bytes = 0;  // of the file: what is lost is lost in these; the mapping begins at a multiple
};
// As map_file(), for processes that share a file. Where pages are lost, what is written to the zeros that take their
// place goes nowhere: before it counts as written, ask failed().
Result<std::unique_ptr<WritableMapping>> map_writable(int fd, const MapRange& range, const std::string& path);
Result<std::unique_ptr<Mapping>> map_range(int fd, const MapRange& range, const std::string& path);

// What errno number `error` means, for messages.
std::string errno_text(int error);

}  // namespace strata
