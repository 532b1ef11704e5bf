// A model whose layers differ in the types of their experts, or have none.
#pragma once

#include <vector>

#include "experts/support.h"

namespace strata::test {

// A layer without experts.
inline const ExpertSpec kDenseLayer{.n_experts = 0};

// Layer l has the experts of specs[l]; dimensions are those of the first, and so is the number of experts.
struct MixedModel {
  MixedModel(const std::vector<ExpertSpec>& specs, const FillPart& fill);

  ExpertFiles files;
  std::unique_ptr<gguf::Model> model;
  experts::ExpertLayout layout;
};

}  // namespace strata::test
