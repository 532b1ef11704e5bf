#include "experts/dispatch.h"

#include "experts/cached_dispatch.h"
#include "experts/host_dispatch.h"

namespace strata::experts {

Result<std::unique_ptr<Dispatch>> Dispatch::create(const DispatchSpec& spec) {
  const bool all_on_host = spec.device.host_accessible() && spec.cache == nullptr;
  return all_on_host ? make_host_dispatch(spec) : make_cached_dispatch(spec);
}

void Dispatch::hint(device::Stream&, int32_t, HintKind, const device::In<int32_t>&, const device::In<int32_t>&) {}

DispatchBytes Dispatch::bytes_needed(const DispatchLimits& limits, bool all_on_host) {
  return all_on_host ? host_dispatch_bytes(limits) : cached_dispatch_bytes(limits);
}

}  // namespace strata::experts
