// Where the experts of a model's layers lie in its files.
#pragma once

#include "experts/expert.h"
#include "model/hparams.h"

namespace strata::model {

// The layers that have experts by the metadata have them in the file, and the dense ones have none: else kBadInput
// names the tensor.
Result<experts::ExpertLayout> expert_layout(const gguf::Model& model, const HParams& hp);

}  // namespace strata::model
