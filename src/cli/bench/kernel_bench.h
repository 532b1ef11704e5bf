// Speed of the matrix products, with weights that are in no cache.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench/lists.h"
#include "cli/bench/spread.h"
#include "kernels/kernels.h"

namespace strata::cli {

struct KernelBenchOptions {
  std::vector<const quant::TypeInfo*> types;  // all have a decoder
  std::vector<kernels::Isa> isas;             // all available
  std::vector<Shape> shapes;
  std::vector<int64_t> tokens;
  int repetitions = 1;
  uint64_t buffer_bytes = 0;  // of copies of the weights, which the calls go through in turn; 0: more than the caches
};

struct KernelResult {
  const char* path = "";  // which of the functions of Kernels
  const quant::TypeInfo* type = nullptr;
  kernels::Isa isa = kernels::Isa::kScalar;
  Shape shape{};
  int64_t tokens = 0;
  uint64_t weight_bytes = 0;  // of one copy
  Spread seconds{};           // of a call

  double weight_bytes_per_second() const { return static_cast<double>(weight_bytes) / seconds.median; }
  // A multiplication and an addition for each weight and token.
  double operations_per_second() const {
    return 2 * static_cast<double>(shape.rows) * static_cast<double>(shape.cols) * static_cast<double>(tokens) /
           seconds.median;
  }
};

using KernelSink = std::function<Status(const KernelResult& result)>;

// On the calling thread. Every combination is told as soon as it is measured. kNoMemory.
Status bench_kernels(const KernelBenchOptions& options, const KernelSink& sink);

// Tensor types that the products take.
std::vector<const quant::TypeInfo*> product_types();

// For people: the head of a table, and a row of it. For programs: an object of all rows.
std::string kernel_table_head();
std::string kernel_row(const KernelResult& result);
std::string kernel_json(const std::vector<KernelResult>& results);

}  // namespace strata::cli
