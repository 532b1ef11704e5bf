// The part of a plan that concerns one device: what its memory is for.
#pragma once

#include "experts/placement.h"

namespace strata::experts {

// Slots and ring of a part; `lent_in_ram` is left 0. kNoMemory when the part's needs, or slots that were asked for, do
// not fit its device.
Result<PartPlacement> place_part(const PlacementInput& input, const PartNeeds& needs);

}  // namespace strata::experts
