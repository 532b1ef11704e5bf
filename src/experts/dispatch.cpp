#include "experts/dispatch.h"

#include "experts/cached_dispatch.h"
#include "experts/host_dispatch.h"
#include "experts/whole_dispatch.h"

namespace strata::experts {
namespace {

class DispatchOfNone final : public Dispatch {
 public:
  explicit DispatchOfNone(bool on_host) : on_host_(on_host) {}
  void run(device::Stream&, int32_t, const device::In<int32_t>&, const device::In<float>&, const device::In<float>&,
           const device::InOut<float>&, const device::In<int32_t>&, const ExpertFormula&, const NextLayer*) override {
    ASSERT(false);
  }
  bool host_takes_part(int64_t rows) const override { return on_host_ || rows > kFewRows; }

 private:
  bool on_host_;
};

}  // namespace

Result<std::unique_ptr<Dispatch>> Dispatch::create(const DispatchSpec& spec) {
  if (spec.limits.n_experts == 0) {
    return std::unique_ptr<Dispatch>(std::make_unique<DispatchOfNone>(spec.device.host_accessible()));
  }
  const bool all_on_host = spec.device.host_accessible() && spec.cache == nullptr;
  if (spec.whole_cache) return make_whole_dispatch(spec);
  return all_on_host ? make_host_dispatch(spec) : make_cached_dispatch(spec);
}

void Dispatch::hint(device::Stream&, int32_t, HintKind, const device::In<int32_t>&, const device::In<int32_t>&) {}

device::View<int32_t> Dispatch::own_ids(int32_t, int64_t) { return {}; }
void Dispatch::finish(device::Stream&, int64_t) {}
void Dispatch::step_done(int64_t, int64_t) {}
bool Dispatch::host_takes_part(int64_t) const { return true; }

// Whether a cache will have all experts is not known yet where memory is planned.
DispatchBytes Dispatch::bytes_needed(const DispatchLimits& limits, bool all_on_host) {
  if (limits.n_experts == 0) return {};
  if (all_on_host) return host_dispatch_bytes(limits);
  const DispatchBytes cached = cached_dispatch_bytes(limits), whole = whole_dispatch_bytes(limits);
  return {.device = std::max(cached.device, whole.device), .host = std::max(cached.host, whole.host)};
}

}  // namespace strata::experts
