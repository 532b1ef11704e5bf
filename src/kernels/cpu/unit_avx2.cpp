// The CPU kernels compiled for avx2; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS avx2
#define STRATA_ISA_ID Isa::kAvx2
#include "kernels/cpu/unit.inl.h"
