// Carries bytes that host code produces into a device's memory, in the order of a stream.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "device/device.h"

namespace strata::device {

// Two pinned buffers in turn: one is written while the other is copied from. One thread; device, stream and
// destinations outlive it.
class Uploader {
 public:
  // kNoMemory when there is no room for two buffers of piece_bytes.
  static Result<std::unique_ptr<Uploader>> create(Device& device, Stream& stream, size_t piece_bytes,
                                                  const std::string& name);
  // Waits for the copies.
  ~Uploader();
  static uint64_t bytes_needed(size_t piece_bytes) { return 2 * uint64_t{piece_bytes}; }

  size_t piece_bytes() const { return piece_bytes_; }

  // write(std::span<std::byte>) -> Status puts `bytes` bytes, at most piece_bytes(), into the buffer; then their copy
  // to dst is queued. Waits for the copy out of the buffer two calls ago. A failed write queues nothing.
  template <class Write>
  Status put(Memory& dst, size_t offset, size_t bytes, const Write& write) {
    ASSERT(bytes <= piece_bytes_);
    Stage& stage = stages_[next_];
    if (stage.in_use) stage.copied->synchronize();
    stage.in_use = false;
    {
      const auto guard = stage.buffer->template write<std::byte>(0, bytes);
      RETURN_IF_ERROR(write(guard.span()));
    }
    stream_.copy(dst, offset, *stage.buffer, 0, bytes);
    stream_.record(*stage.copied);
    stage.in_use = true;
    next_ ^= 1;
    return {};
  }

 private:
  struct Stage {
    std::unique_ptr<HostBuffer> buffer;
    std::unique_ptr<Event> copied;
    bool in_use = false;  // a copy out of the buffer was queued
  };
  Uploader(Stream& stream, size_t piece_bytes) : stream_(stream), piece_bytes_(piece_bytes) {}

  Stream& stream_;
  size_t piece_bytes_;
  std::array<Stage, 2> stages_;
  size_t next_ = 0;
};

}  // namespace strata::device
