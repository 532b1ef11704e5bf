// The stages between logits and draw, in the order in which they run. A new stage is a function and a row.
#pragma once

#include <span>
#include <string_view>

#include "text/sampler.h"

namespace strata::text {

struct SamplerStage {
  std::string_view name;
  void (*apply)(const SamplerParams& params, Candidates& candidates);  // does nothing when its parameter is off
};

std::span<const SamplerStage> sampler_chain();

}  // namespace strata::text
