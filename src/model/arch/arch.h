// One declaration per architecture; the definitions are one file each, the table is registry.cpp.
#pragma once

#include "model/network.h"

namespace strata::model {

extern const ArchInfo kGlm4Moe;
extern const ArchInfo kLlama;
extern const ArchInfo kOlmoe;
extern const ArchInfo kQwen2Moe;
extern const ArchInfo kQwen3;
extern const ArchInfo kQwen3Moe;
extern const ArchInfo kQwen35Moe;
extern const ArchInfo kQwen3Next;
extern const ArchInfo kQwen4Exp;
extern const ArchInfo kGptOss;
extern const ArchInfo kDeepseek2;

}  // namespace strata::model
