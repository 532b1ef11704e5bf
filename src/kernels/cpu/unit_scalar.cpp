// The CPU kernels compiled for scalar; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS scalar
#define STRATA_ISA_ID Isa::kScalar
#include "kernels/cpu/unit.inl.h"
