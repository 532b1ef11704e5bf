// Memory to measure with: large pages where the system gives them, no page touched before its user does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace strata::cli {

class Pages {
 public:
  // A multiple of the size of a huge page, at least `bytes`. kNoMemory names the size.
  static Result<std::unique_ptr<Pages>> allocate(uint64_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  // How many of the touched bytes lie on huge pages, as the system tells; 0 where it does not.
  uint64_t huge_bytes() const;

 private:
  Pages(std::span<std::byte> mapping, std::span<std::byte> bytes) : mapping_(mapping), bytes_(bytes) {}

  std::span<std::byte> mapping_;  // with room for aligning
  std::span<std::byte> bytes_;    // aligned to a huge page
};

// `wanted` bytes, or what half of the available RAM has room for if that is less.
struct BufferSize {
  uint64_t bytes = 0;
  bool reduced = false;
};
Result<BufferSize> buffer_size(uint64_t wanted);

}  // namespace strata::cli
