// Dispatch over the experts of a device's cache and those in host memory.
#pragma once

#include "experts/dispatch.h"

namespace strata::experts {

Result<std::unique_ptr<Dispatch>> make_cached_dispatch(const DispatchSpec& spec);
DispatchBytes cached_dispatch_bytes(const DispatchLimits& limits);

}  // namespace strata::experts
