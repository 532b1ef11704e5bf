#include "engine/routing_log.h"

#include <algorithm>

namespace strata::engine {

uint64_t RoutingLog::bytes_needed(const RoutingLogSpec& spec) {
  return static_cast<uint64_t>(spec.n_steps) * static_cast<uint64_t>(spec.last - spec.first) *
         static_cast<uint64_t>(spec.max_rows * spec.n_used) * sizeof(int32_t);
}

Result<std::unique_ptr<RoutingLog>> RoutingLog::create(device::Device& host, const RoutingLogSpec& spec) {
  ASSERT(host.host_accessible());
  std::unique_ptr<RoutingLog> log(new RoutingLog(spec));
  ASSIGN_OR_RETURN(log->ids_,
                   host.allocate_host(bytes_needed(spec), device::MemoryKind::kPageable, "routing of steps"));
  log->rows_.assign(static_cast<size_t>(spec.n_steps) * log->n_layers(), -1);
  return log;
}

device::View<int32_t> RoutingLog::ids(size_t index, int64_t rows) const {
  const auto layer_bytes = static_cast<size_t>(spec_.max_rows * spec_.n_used) * sizeof(int32_t);
  return device::view_of<int32_t>(*ids_, rows, spec_.n_used, index * layer_bytes);
}

void RoutingLog::begin(uint64_t step) {
  step_ = step;
  std::fill_n(rows_.begin() + static_cast<std::ptrdiff_t>(index(step, 0)), n_layers(), -1);
}

void RoutingLog::routed(int32_t layer, const device::In<int32_t>& told) {
  ASSERT(layer >= spec_.first);
  ASSERT(layer < spec_.last);
  ASSERT(told.rows <= spec_.max_rows);
  const size_t at = index(step_, static_cast<size_t>(layer - spec_.first));
  const device::View<int32_t> kept = ids(at, told.rows);
  for (int64_t r = 0; r < told.rows; r++) std::copy_n(told.row(r), told.cols, kept.row(r));
  rows_[at] = told.rows;
}

void RoutingLog::tell(uint64_t step, experts::RoutingObserver& observer) const {
  for (size_t l = 0; l < n_layers(); l++) {
    const size_t at = index(step, l);
    if (rows_[at] >= 0) observer.routed(spec_.first + static_cast<int32_t>(l), ids(at, rows_[at]));
  }
}

}  // namespace strata::engine
