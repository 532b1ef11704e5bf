// Memory that ends (or begins) at a page without access, so that one byte too far ends the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace strata::test {

enum class Guard { kBefore, kBehind };

class GuardedBytes {
 public:
  GuardedBytes(size_t size, Guard guard) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (size + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    base_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED || mprotect(static_cast<uint8_t*>(base_) + page, inner, PROT_READ | PROT_WRITE) != 0) {
      ADD_FAILURE() << "cannot map " << mapped_ << " bytes";
      std::abort();
    }
    data_ = static_cast<uint8_t*>(base_) + page + (guard == Guard::kBehind ? inner - size : 0);
  }
  GuardedBytes(std::span<const uint8_t> bytes, Guard guard) : GuardedBytes(bytes.size(), guard) {
    std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data() { return data_; }
  float* floats() { return reinterpret_cast<float*>(data_); }  // for sizes that are multiples of 4

 private:
  void* base_ = nullptr;
  size_t mapped_ = 0;
  uint8_t* data_ = nullptr;
};

}  // namespace strata::test
