// Memory that operations work on, and what an operation touches of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/assert.h"

namespace strata::device {

class Device;

enum class MemoryKind {
  kDevice,    // a device's own memory
  kPinned,    // host memory that a queued copy reads when it runs
  kPageable,  // host memory whose bytes a queued copy takes before the call returns
};

// A range of memory with an owner. Movable by nobody: operations hold plain pointers to it, so it has to outlive every
// stream and graph that uses it. Derived classes free it.
class Memory {
 public:
  Memory(Device* owner, MemoryKind kind, std::string name, std::byte* address, size_t bytes)
      : owner_(owner), kind_(kind), name_(std::move(name)), address_(address), bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Device* owner() const { return owner_; }
  MemoryKind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  size_t bytes() const { return bytes_; }
  // A host pointer on the host and simulated devices and for host memory; a device pointer on cuda.
  std::byte* address() const { return address_; }

 private:
  Device* owner_;
  MemoryKind kind_;
  std::string name_;
  std::byte* address_;
  size_t bytes_;
};

// Memory of a device, counted against its budget.
class Buffer : public Memory {
 public:
  using Memory::Memory;
};

// Host memory for copies to and from a device. Host code reaches the bytes only through guards, so that a checker can
// see the accesses of the host beside those of the streams.
class HostBuffer : public Memory {
 public:
  using Memory::Memory;

  template <class T>
  class Guard {
   public:
    explicit Guard(std::span<T> data) : data_(data) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    std::span<T> span() const { return data_; }
    T& operator[](size_t i) const {
      DASSERT(i < data_.size());
      return data_[i];
    }

   private:
    std::span<T> data_;
  };

  // `count` elements of T from byte `offset` on; the access lasts as long as the guard.
  template <class T>
  Guard<const T> read(size_t offset, size_t count) const {
    ASSERT(offset <= bytes());
    ASSERT(count <= (bytes() - offset) / sizeof(T));
    return Guard<const T>({reinterpret_cast<const T*>(address() + offset), count});
  }
  template <class T>
  Guard<T> write(size_t offset, size_t count) {
    ASSERT(offset <= bytes());
    ASSERT(count <= (bytes() - offset) / sizeof(T));
    return Guard<T>({reinterpret_cast<T*>(address() + offset), count});
  }
};

// `rows` runs of `row_bytes` bytes, `stride_bytes` apart, that an operation reads or writes.
struct Range {
  const Memory* memory = nullptr;
  size_t offset = 0;
  size_t row_bytes = 0;
  int64_t rows = 0;
  size_t stride_bytes = 0;
  bool write = false;
};

}  // namespace strata::device
