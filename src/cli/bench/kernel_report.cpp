// The rows of the matrix products, for people and for programs.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/bench/kernel_bench.h"
#include "cli/bench/system.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr double kGiga = 1e9;

std::string shape_text(const Shape& shape) { return format("{}x{}", shape.rows, shape.cols); }

// Speed with the fastest and the slowest repetition in place of the median.
Json spread_json(double median, const Spread& seconds) {
  return {{"median", median},
          {"min", median * seconds.median / seconds.max},
          {"max", median * seconds.median / seconds.min}};
}

Json row_json(const KernelResult& result) {
  return {{"path", result.path},
          {"type", result.type->name},
          {"isa", kernels::isa_name(result.isa)},
          {"rows", result.shape.rows},
          {"cols", result.shape.cols},
          {"tokens", result.tokens},
          {"weight_bytes", result.weight_bytes},
          {"weight_bytes_per_second", spread_json(result.weight_bytes_per_second(), result.seconds)},
          {"operations_per_second", spread_json(result.operations_per_second(), result.seconds)}};
}

}  // namespace

std::string kernel_table_head() {
  return "| path  | type    | isa        | shape       | tokens |    GB/s |  GOP/s |    min ..    max |\n"
         "| ----- | ------- | ---------- | ----------- | -----: | ------: | -----: | ---------------: |\n";
}

std::string kernel_row(const KernelResult& result) {
  const double operations = result.operations_per_second() / kGiga;
  return format("| {:<5} | {:<7} | {:<10} | {:<11} | {:>6} | {:>7.3f} | {:>6.1f} | {:>6.1f} .. {:>6.1f} |\n",
                result.path, result.type->name, kernels::isa_name(result.isa), shape_text(result.shape), result.tokens,
                result.weight_bytes_per_second() / kGiga, operations,
                operations * result.seconds.median / result.seconds.max,
                operations * result.seconds.median / result.seconds.min);
}

std::string kernel_json(const std::vector<KernelResult>& results) {
  Json rows = Json::array();
  for (const KernelResult& result : results) rows.push_back(row_json(result));
  const Json json = {{"version", STRATA_VERSION}, {"cpu", cpu_name()}, {"threads", 1}, {"kernels", std::move(rows)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata::cli
