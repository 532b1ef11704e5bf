// Memory that operations work on, and what an operation touches of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/source_site.h"

namespace strata::device {

class Device;

enum class MemoryKind {
  kDevice,    // a device's own memory
  kPinned,    // host memory that a queued copy reads when it runs
  kPageable,  // host memory whose bytes a queued copy takes before the call returns
};

// How the process has mapped memory that is its own.
enum class MappedAs { kWritable, kReadOnly };

// What a device that checks the order of accesses is told about host code. Any thread; a call stands for the calling
// thread. The numbers returned name the access until it ends.
class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  virtual uint64_t begin_access(size_t offset, size_t bytes, bool write, SourceSite site) = 0;
  virtual void end_access(uint64_t access) = 0;
  // A read from a file into the memory: it belongs to no thread until one reaps it.
  virtual uint64_t submit_read(size_t offset, size_t bytes, SourceSite site) = 0;
  virtual void reap_read(uint64_t read) = 0;
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
  bool holds(size_t offset, size_t bytes) const { return offset <= bytes_ && bytes <= bytes_ - offset; }
  // Null on devices that check nothing.
  AccessObserver* observer() const { return observer_; }

 protected:
  void set_observer(AccessObserver* observer) { observer_ = observer; }

 private:
  Device* owner_;
  MemoryKind kind_;
  std::string name_;
  std::byte* address_;
  size_t bytes_;
  AccessObserver* observer_ = nullptr;
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

  // An access of host code, from its construction to its end.
  template <class T>
  class Guard {
   public:
    Guard(const HostBuffer& buffer, size_t offset, std::span<T> data, SourceSite site)
        : data_(data), observer_(buffer.observer()) {
      if (observer_ != nullptr)
        access_ = observer_->begin_access(offset, data.size_bytes(), !std::is_const_v<T>, site);
    }
    ~Guard() {
      if (observer_ != nullptr) observer_->end_access(access_);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    std::span<T> span() const { return data_; }
    T& operator[](size_t i) const {
      DASSERT(i < data_.size());
      return data_[i];
    }

   private:
    std::span<T> data_;
    AccessObserver* observer_;
    uint64_t access_ = 0;
  };

  // Bytes on their way from a file by a read that runs beside the host (io_uring): they are being written from its
  // submission until it is reaped, here or by the destructor, on whichever thread. The buffer must outlive it.
  class IncomingRead {
   public:
    IncomingRead() = default;
    IncomingRead(const HostBuffer& buffer, size_t offset, size_t bytes, SourceSite site)
        : observer_(buffer.observer()) {
      if (observer_ != nullptr) read_ = observer_->submit_read(offset, bytes, site);
    }
    IncomingRead(IncomingRead&& other) noexcept
        : observer_(std::exchange(other.observer_, nullptr)), read_(other.read_) {}
    IncomingRead& operator=(IncomingRead&& other) noexcept {
      if (this == &other) return *this;
      reap();
      observer_ = std::exchange(other.observer_, nullptr);
      read_ = other.read_;
      return *this;
    }
    ~IncomingRead() { reap(); }

    void reap() {
      if (observer_ != nullptr) std::exchange(observer_, nullptr)->reap_read(read_);
    }

   private:
    AccessObserver* observer_ = nullptr;
    uint64_t read_ = 0;
  };

  // `count` elements of T from byte `offset` on; the access lasts as long as the guard.
  template <class T>
  Guard<const T> read(size_t offset, size_t count, SourceSite site = SourceSite::current()) const {
    return {*this, offset, elements<const T>(offset, count), site};
  }
  template <class T>
  Guard<T> write(size_t offset, size_t count, SourceSite site = SourceSite::current()) {
    return {*this, offset, elements<T>(offset, count), site};
  }
  // Just before a read of a file into these bytes is submitted.
  IncomingRead submit_read(size_t offset, size_t count, SourceSite site = SourceSite::current()) {
    return {*this, offset, elements<std::byte>(offset, count).size(), site};
  }

 private:
  template <class T>
  std::span<T> elements(size_t offset, size_t count) const {
    ASSERT(offset <= bytes());
    ASSERT(count <= (bytes() - offset) / sizeof(T));
    return {reinterpret_cast<T*>(address() + offset), count};
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
