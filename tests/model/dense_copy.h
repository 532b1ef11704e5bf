// Models without experts that are made from golden ones: what one expert computes, as an MLP.
#pragma once

#include "model/model_copy.h"

namespace strata::test {

// The golden model with expert `expert` of each layer alone, so that every row is routed to it with all its weight.
ModelCopy with_one_expert(const std::string& golden_arch, uint64_t expert);

// The same function as with_one_expert() in the form of a dense model of architecture `arch`.
ModelCopy dense_twin(const std::string& golden_arch, uint64_t expert, const std::string& arch);

}  // namespace strata::test
