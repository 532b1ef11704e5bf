// Dispatch over a device's cache that has all experts and keeps them: the host has no part in a layer.
#pragma once

#include "experts/dispatch.h"

namespace strata::experts {

// spec.whole_cache is true.
Result<std::unique_ptr<Dispatch>> make_whole_dispatch(const DispatchSpec& spec);
DispatchBytes whole_dispatch_bytes(const DispatchLimits& limits);

}  // namespace strata::experts
