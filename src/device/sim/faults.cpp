#include "device/sim/faults.h"

#include <numeric>

#include "base/format.h"

namespace strata::device::sim {

const char* fault_point_name(FaultPoint point) {
  static constexpr const char* kNames[kFaultPoints] = {"allocation", "operation", "copy", "event record", "host task"};
  return kNames[static_cast<size_t>(point)];
}

void Faults::fail_at(uint64_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  countdown_ = n;
  only_.reset();
}
void Faults::fail_at(FaultPoint point, uint64_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  countdown_ = n;
  only_ = point;
}
void Faults::clear() { fail_at(0); }

uint64_t Faults::visited() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::accumulate(visited_.begin(), visited_.end(), uint64_t{0});
}
uint64_t Faults::visited(FaultPoint point) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return visited_[static_cast<size_t>(point)];
}
uint64_t Faults::failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed_;
}

std::optional<Error> Faults::visit(FaultPoint point, std::string_view what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t n = ++visited_[static_cast<size_t>(point)];
  if (countdown_ == 0 || (only_ && *only_ != point) || --countdown_ != 0) return std::nullopt;
  failed_++;
  const ErrorCode code = point == FaultPoint::kAllocation ? ErrorCode::kNoMemory
                         : point == FaultPoint::kTask     ? ErrorCode::kIo
                                                          : ErrorCode::kInternal;
  return Error{code, format("{}: {} number {} fails by order of the fault injector", what, fault_point_name(point), n)};
}

}  // namespace strata::device::sim
