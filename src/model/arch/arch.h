// One declaration per architecture; the definitions are one file each, the table is registry.cpp.
#pragma once

#include "model/network.h"

namespace strata::model {

extern const ArchInfo kQwen3Moe;
extern const ArchInfo kQwen3Next;
extern const ArchInfo kGptOss;

}  // namespace strata::model
