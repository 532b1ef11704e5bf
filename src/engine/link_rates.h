// How fast a device reads experts over its link, and the CPU from RAM: what decides who computes those that the
// device's cache lacks.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "experts/link_share.h"
#include "experts/source.h"

namespace strata::engine {

// What kernels that read page-locked memory in place reach of the rate of copies (bench/results/hybrid.md).
inline constexpr double kInPlaceShare = 0.92;

// Rate of copies to a device with memory of its own, from page-locked memory. A little of both is taken for the time of
// the call; 0 where it is not there.
Result<double> measure_copies(device::Device& device, Clock& clock);

struct LinkProbe {
  device::Device& device;  // has memory of its own
  experts::ExpertSource& source;
  const experts::ExpertLayout& layout;
  ThreadPool& threads;  // that compute experts
  Clock& clock;
};

// Measured on experts in page-locked memory, in a few milliseconds, with a little memory of the device that is given
// back. Where the device can read none in place, copies alone are, from other memory. Rates of 0 where they were not
// measured, or the memory is not there.
Result<experts::LinkRates> measure_link(const LinkProbe& probe);

}  // namespace strata::engine
