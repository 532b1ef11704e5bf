// What the tests on a CUDA device share: the device, and numbers in its memory that the host can set and look at.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/cuda.h"

namespace strata::test {

inline std::unique_ptr<device::cuda::Gpu> open_gpu(const device::cuda::GpuOptions& options = {}) {
  return device::cuda::open_gpu(0, options).value();
}

// The one beside the first, where there is one; else the first.
inline int second_gpu() {
  static const int ordinal = device::cuda::open_gpu(1, {}).ok() ? 1 : 0;
  return ordinal;
}

inline device::HostTask task_of(const char* name, std::function<Status()> run) {
  return {.name = name, .run = std::move(run), .ranges = {}};
}

// Closed at first; whoever passes waits until it is opened.
class Gate {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() const { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

// A number on the device, and a pinned place for it on the host.
class Number {
 public:
  Number(device::Device& device, float value)
      : stream_(device.make_stream("numbers")),
        buffer_(device.allocate(sizeof(float), "a number").value()),
        host_(device.allocate_host(sizeof(float), device::MemoryKind::kPinned, "a number").value()) {
    set(value);
  }
  // Beside all other streams: they are idle.
  void set(float value) {
    host_->write<float>(0, 1)[0] = value;
    stream_->copy(*buffer_, 0, *host_, 0, sizeof(float));
    EXPECT_TRUE(stream_->synchronize().ok());
  }
  float get() const {
    stream_->copy(*host_, 0, *buffer_, 0, sizeof(float));
    EXPECT_TRUE(stream_->synchronize().ok());
    return host_->read<float>(0, 1)[0];
  }
  device::Buffer& memory() const { return *buffer_; }
  device::View<float> view() const { return device::view_of<float>(*buffer_, 1, 1); }

 private:
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Buffer> buffer_;
  std::unique_ptr<device::HostBuffer> host_;
};

// Adds numbers on a device.
class Adder {
 public:
  explicit Adder(device::Device& device)
      : live_(device.allocate(sizeof(int32_t), "live rows").value()) {
    const auto one = device.allocate_host(sizeof(int32_t), device::MemoryKind::kPinned, "live rows").value();
    one->write<int32_t>(0, 1)[0] = 1;
    const auto stream = device.make_stream("adder");
    stream->copy(*live_, 0, *one, 0, sizeof(int32_t));
    EXPECT_TRUE(stream->synchronize().ok());
  }
  // x += y
  void enqueue(device::Stream& stream, const device::View<float>& x, const device::View<float>& y) const {
    stream.enqueue(
        device::AddGated{.y = y, .gate = {}, .live = device::view_of<int32_t>(*live_, 1, 1), .x = x});
  }

 private:
  std::unique_ptr<device::Buffer> live_;
};

// With signals of both kinds.
class GpuTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<device::cuda::Gpu> device_ = open_gpu({.stream_memory_operations = GetParam()});
  std::unique_ptr<device::Stream> stream_ = device_->make_stream("test");
  Adder adder_{*device_};

  Number number(float value) { return Number(*device_, value); }
  void add(device::Stream& stream, const Number& x, const Number& y) const {
    adder_.enqueue(stream, x.view(), y.view());
  }
};

inline std::string signals_name(const testing::TestParamInfo<bool>& info) {
  return info.param ? "MemoryOperations" : "HostFunctions";
}

}  // namespace strata::test
