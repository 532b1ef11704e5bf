// Every operation with random inputs in buffers of its own, beside what it has to compute. The tests of results,
// graphs, threads and allocations go through this one list.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/support.h"

namespace strata::test {

// The value that an operation leaves at an address. `tolerance` 0: exactly that.
struct Want {
  enum class Kind { kF32, kF16, kI32, kScratch };  // kScratch: 4 bytes that may become anything
  const void* at;
  double value;
  double tolerance = 0;
  Kind kind = Kind::kF32;
};

class OpCase {
 public:
  OpCase(device::Device& device, std::string name, int op) : device_(device), name_(std::move(name)), op_(op) {}

  const std::string& name() const { return name_; }  // of the case; several may test one operation
  int op() const { return op_; }                     // index into AllOps

  // A grid with padding around it, or a packed one.
  template <class T>
  std::shared_ptr<Grid<T>> grid(int64_t rows, int64_t cols) {
    return keep(std::make_shared<Grid<T>>(device_, rows, cols, 3, 2));
  }
  template <class T>
  std::shared_ptr<Grid<T>> packed(int64_t rows, int64_t cols) {
    return keep(std::make_shared<Grid<T>>(device_, rows, cols, 0, 0));
  }

  // The grid whose first element counts the live rows or segments.
  std::shared_ptr<Grid<int32_t>> count_grid() { return count_ = grid<int32_t>(1, 1); }
  void set_empty() const { count_->at(0, 0) = 0; }

  std::function<void(Random&)> fill;          // all inputs, in the same buffers each time
  std::function<void(device::Stream&)> enqueue;
  std::function<std::vector<Want>()> expect;  // from the inputs as they are before the operation runs

  // The bytes of all buffers of the case, one after another, in order of their creation.
  std::vector<std::vector<std::byte>> snapshot() const {
    std::vector<std::vector<std::byte>> all;
    for (const device::Memory* memory : memories_) all.push_back(bytes_of(*memory));
    return all;
  }
  const std::vector<const device::Memory*>& memories() const { return memories_; }

 private:
  template <class T>
  std::shared_ptr<Grid<T>> keep(std::shared_ptr<Grid<T>> grid) {
    memories_.push_back(grid->memory());
    owners_.push_back(grid);
    return grid;
  }

  device::Device& device_;
  std::string name_;
  int op_;
  std::shared_ptr<Grid<int32_t>> count_;
  std::vector<const device::Memory*> memories_;
  std::vector<std::shared_ptr<void>> owners_;
};

using OpCases = std::vector<std::unique_ptr<OpCase>>;

// All of the cases, several for an operation that has several forms.
OpCases all_op_cases(device::Device& device);

// Its parts.
void add_basic_cases(device::Device& device, OpCases& cases);
void add_attention_cases(device::Device& device, OpCases& cases);
void add_latent_cases(device::Device& device, OpCases& cases);
void add_recurrent_cases(device::Device& device, OpCases& cases);
void add_expert_cases(device::Device& device, OpCases& cases);
void add_share_cases(device::Device& device, OpCases& cases);
void add_hyper_cases(device::Device& device, OpCases& cases);
void add_sparse_cases(device::Device& device, OpCases& cases);
void add_ngram_cases(device::Device& device, OpCases& cases);
// Not among all of them, since they hold addresses: experts that lie outside the slots.
void add_linked_cases(device::Device& device, OpCases& cases);
void add_fetch_cases(device::Device& device, OpCases& cases);

template <class Op>
OpCase& add_case(device::Device& device, OpCases& cases, const std::string& form) {
  cases.push_back(std::make_unique<OpCase>(device, std::string(Op::kName) + form, device::op_index<Op>()));
  return *cases.back();
}

// Half a unit in the last place of 1: the relative error of one rounding.
inline constexpr double kRounding = 0x1p-24;

// Wants for a row of values, each off by at most `roundings` roundings of its own size.
inline void want_row(std::vector<Want>& wants, const float* at, const std::vector<double>& values, double roundings) {
  for (size_t i = 0; i < values.size(); i++)
    wants.push_back({at + i, values[i], roundings * kRounding * std::abs(values[i])});
}
// The same with one absolute tolerance.
inline void want_row_within(std::vector<Want>& wants, const float* at, const std::vector<double>& values,
                            double tolerance) {
  for (size_t i = 0; i < values.size(); i++) wants.push_back({at + i, values[i], tolerance});
}
// n elements of 4 bytes in which the operation works.
inline void want_scratch(std::vector<Want>& wants, const void* at, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    wants.push_back({static_cast<const std::byte*>(at) + 4 * i, 0, 0, Want::Kind::kScratch});
  }
}

}  // namespace strata::test
