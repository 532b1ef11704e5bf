// The rotary embedding of a model: what its metadata says, changed by what the user asked for.
#pragma once

#include <optional>

#include "base/result.h"
#include "kernels/rope.h"

namespace strata::model {

class Keys;
struct HParams;

// What the user wants other than the file says; absent: as the file says.
struct RopeOverrides {
  std::optional<kernels::RopeScalingType> scaling;
  std::optional<double> factor;            // > 0: how far the context is stretched
  std::optional<double> base;              // > 1
  std::optional<double> original_context;  // > 0, tokens. Of YaRN, as those below
  std::optional<double> ext_factor;
  std::optional<double> attn_factor;       // times the file's
  std::optional<double> beta_fast;
  std::optional<double> beta_slow;

  // The flag of the first one that only YaRN has; null: there is none.
  const char* yarn_flag() const;
};

// Checks what overrides say without a model: kBadInput for those that contradict each other.
Status check_overrides(const RopeOverrides& overrides);

// Reads rope.* into hp.rope, and which factor tensor divides the frequencies; hp.key_dim and hp.context_length are
// there. kUnsupported for a scaling that is not known, kBadInput for values that cannot be, by key or flag.
Status read_rope(const Keys& keys, HParams& hp);

}  // namespace strata::model
