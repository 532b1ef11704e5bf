// What the tests of the device floor share: a host device, and grids, which are views whose surroundings are watched.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "device/host/host_device.h"

namespace strata::test {

inline device::host::HostDeviceOptions host_options(int threads = 1, uint64_t budget_bytes = 256 * kMiB) {
  static const kernels::Kernels* const kernels = kernels::select_kernels("auto").value();
  return {.budget_bytes = budget_bytes, .threads = {.n_threads = threads, .spin_us = 0}, .kernels = kernels};
}

inline std::unique_ptr<device::Buffer> make_buffer(device::Device& device, size_t bytes, const char* name = "test") {
  return device.allocate(bytes, name).value();
}

// rows x cols elements within rows that are wider on both sides, in a buffer of their own. Every byte starts as 0xff:
// NaN as a float or a half, -1 as an int.
template <class T>
class Grid {
 public:
  Grid(device::Device& device, int64_t rows, int64_t cols, int64_t left, int64_t right)
      : cols_(cols), width_(left + cols + right),
        buffer_(make_buffer(device, static_cast<size_t>(rows * width_) * sizeof(T))),
        view_{buffer_.get(), static_cast<size_t>(left) * sizeof(T), rows, cols, width_} {
    std::memset(buffer_->address(), 0xff, buffer_->bytes());
  }

  const device::View<T>& view() const { return view_; }
  template <class V>
  operator V() const { return V(view_); }  // In, Out or InOut of it
  device::Memory* memory() const { return buffer_.get(); }

  T* row(int64_t r) const { return view_.row(r); }
  T& at(int64_t r, int64_t c) const { return row(r)[c]; }
  int64_t rows() const { return view_.rows; }
  int64_t cols() const { return cols_; }

  void fill_normal(Random& random, double scale = 1) const {
    for (int64_t r = 0; r < rows(); r++) {
      for (int64_t c = 0; c < cols(); c++) at(r, c) = static_cast<T>(random.normal() * scale);
    }
  }
  void set_row(int64_t r, const std::vector<T>& values) const {
    ASSERT(static_cast<int64_t>(values.size()) <= cols_);
    std::memcpy(row(r), values.data(), values.size() * sizeof(T));
  }

 private:
  int64_t cols_;
  int64_t width_;
  std::unique_ptr<device::Buffer> buffer_;
  device::View<T> view_;
};

inline std::vector<std::byte> bytes_of(const device::Memory& memory) {
  return {memory.address(), memory.address() + memory.bytes()};
}

}  // namespace strata::test
