// What the kernel tests share: the instruction sets of this machine, buffers that notice a stray access, random data
// and comparisons with the oracle.
#pragma once

#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/kernels.h"

namespace strata::kernels::test {

// Half a unit in the last place of 1: the relative error of one rounding.
inline constexpr double kU = 0x1p-24;

inline std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> all;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    if (isa_available(isa)) all.push_back(&kernels_for(isa));
  }
  return all;
}

// Runs body(kernels) for every instruction set, with its name in the failure messages.
template <class Body>
void for_each_isa(const Body& body) {
  for (const Kernels* kernels : available_kernels()) {
    SCOPED_TRACE(isa_name(kernels->isa));
    body(*kernels);
  }
}

// n elements that end at an unreadable page, with a poisoned margin before them: reading or writing past the end
// faults, writing before the start is found by intact().
template <class T>
class Guarded {
 public:
  explicit Guarded(size_t n) : n_(n) {
    bytes_ = (n * sizeof(T) + kMargin + kPage - 1) / kPage * kPage;
    void* at = mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<uint8_t*>(at);
    if (mprotect(base_ + bytes_, kPage, PROT_NONE) != 0) throw std::bad_alloc();
    std::memset(base_, kPoison, bytes_);
    data_ = reinterpret_cast<T*>(base_ + bytes_ - n * sizeof(T));
  }
  explicit Guarded(const std::vector<T>& values) : Guarded(values.size()) {
    if (n_ > 0) std::memcpy(data_, values.data(), n_ * sizeof(T));
  }
  ~Guarded() { munmap(base_, bytes_ + kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return n_; }
  T& operator[](size_t i) { return data_[i]; }
  std::vector<T> values() const { return {data_, data_ + n_}; }
  bool intact() const {
    for (const uint8_t* p = base_; p < reinterpret_cast<const uint8_t*>(data_); p++) {
      if (*p != kPoison) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kMargin = 256;
  static constexpr uint8_t kPoison = 0xf7;
  size_t n_;
  size_t bytes_ = 0;
  uint8_t* base_ = nullptr;
  T* data_ = nullptr;
};
using Floats = Guarded<float>;

inline std::vector<float> normals(Random& random, size_t n, double scale = 1) {
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random.normal() * scale);
  return out;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// The first index whose difference is above tolerance(i), or -1. NaN is never close.
template <class Tolerance>
int64_t first_far(const float* got, const std::vector<double>& want, const Tolerance& tolerance) {
  for (size_t i = 0; i < want.size(); i++) {
    if (!(std::abs(got[i] - want[i]) <= tolerance(i))) return static_cast<int64_t>(i);
  }
  return -1;
}

template <class Tolerance>
void expect_close(const float* got, const std::vector<double>& want, const Tolerance& tolerance) {
  const int64_t i = first_far(got, want, tolerance);
  if (i < 0) return;
  const auto at = static_cast<size_t>(i);
  ADD_FAILURE() << "element " << i << " of " << want.size() << ": got " << got[i] << ", want " << want[at]
                << ", off by " << std::abs(got[i] - want[at]) << ", allowed " << tolerance(at);
}

// |got - want| / |want|, both as vectors.
inline double relative_l2(const float* got, const std::vector<double>& want) {
  double off = 0, size = 0;
  for (size_t i = 0; i < want.size(); i++) {
    off += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(off / size);
}

}  // namespace strata::kernels::test
