#include "device/sim/machine.h"

#include "device/sim/core.h"

namespace strata::device::sim {

SimMachine::SimMachine(const SimSpec& spec, const kernels::Kernels& kernels, bool manual)
    : core_(std::make_unique<Core>(spec, kernels, manual)) {
  for (size_t i = 0; i < spec.devices.size(); i++)
    devices_.push_back(std::make_unique<SimDevice>(*core_, static_cast<int>(i)));
  core_->faults.fail_at(spec.fail_at);
  const std::lock_guard<std::mutex> lock(core_->order.mutex());
  core_->order.work_for(core_->order.open(StrandKind::kHost, "host", {}));
}
SimMachine::~SimMachine() { ASSERT(host_bytes() == 0); }

const SimSpec& SimMachine::spec() const { return core_->spec; }
uint64_t SimMachine::host_bytes() const { return core_->host_bytes.load(); }
Faults& SimMachine::faults() { return core_->faults; }

int64_t SimMachine::now_ns() {
  const std::lock_guard<std::mutex> lock(core_->order.mutex());
  return core_->order.current().now.time_ns;
}

std::vector<std::string> SimMachine::races() {
  const std::lock_guard<std::mutex> lock(core_->order.mutex());
  std::vector<std::string> texts;
  if (!core_->checker) return texts;
  for (const Checker::Report& report : core_->checker->reports()) texts.push_back(report.text);
  return texts;
}
uint64_t SimMachine::n_races() {
  const std::lock_guard<std::mutex> lock(core_->order.mutex());
  return core_->checker ? core_->checker->n_races() : 0;
}
Status SimMachine::health() {
  const std::lock_guard<std::mutex> lock(core_->order.mutex());
  if (!core_->checker || core_->checker->reports().empty()) return {};
  return Error{ErrorCode::kInternal, core_->checker->reports().front().line};
}

Status SimMachine::run_next(const std::string& lane, const std::string& job) {
  return core_->schedule.run_next(lane, job);
}
std::vector<std::string> SimMachine::next_jobs() { return core_->schedule.next_jobs(); }

Result<std::unique_ptr<SimMachine>> make_sim(std::string_view text, const SimOptions& options) {
  ASSIGN_OR_RETURN(const SimSpec spec, parse_sim_spec(text));
  const kernels::Kernels* kernels = options.kernels;
  if (kernels == nullptr) {
    ASSIGN_OR_RETURN(kernels, kernels::select_kernels("auto"));
  }
  return std::make_unique<SimMachine>(spec, *kernels, options.manual);
}

}  // namespace strata::device::sim
