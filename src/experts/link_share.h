// How many of the experts that a device's cache lacks the device itself reads over the link, while the CPU computes the
// others. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace strata::experts {

struct LinkRates {
  double link = 0;    // bytes a second that the device's kernels read from page-locked memory
  double cpu = 0;     // bytes of experts a second that the CPU computes from meanwhile
  double copies = 0;  // bytes a second that copies to the device reach
  double link_s = 0;  // from when the last of the device's experts has come until it has computed them
};

// [n_experts + 1]: of m missing experts, how many the device reads. `fraction` says which part of them; without one as
// many as have both sides end first, and with equals fewer of them. Both rates are positive where there is no fraction.
std::vector<int32_t> link_shares(int64_t n_experts, int64_t blob_bytes, const LinkRates& rates,
                                 std::optional<double> fraction);

}  // namespace strata::experts
