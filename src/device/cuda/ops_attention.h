// Attention of prompts: tiles of consecutive rows of a sequence share the loads of its keys and values.
#pragma once

#include "device/cuda/cuda_ops.h"

namespace strata::device::cuda {

// From this many rows on they are likely to be a prompt's.
inline constexpr int64_t kPromptRows = 17;

// Whether an operation is computed so; and that, for the rows that stand in front of a position.
bool attends_in_tiles(const Attention& op, const OpContext& context);
void attend_in_tiles(const Attention& op, int64_t before, const OpContext& context);

}  // namespace strata::device::cuda
