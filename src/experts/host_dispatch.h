// Dispatch on a device whose memory the host can read: all experts are computed on the CPU pool.
#pragma once

#include "experts/dispatch.h"

namespace strata::experts {

Result<std::unique_ptr<Dispatch>> make_host_dispatch(const DispatchSpec& spec);
DispatchBytes host_dispatch_bytes(const DispatchLimits& limits);

}  // namespace strata::experts
