// The CPU kernels compiled for avx512; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS avx512
#define STRATA_ISA_ID Isa::kAvx512
#include "kernels/cpu/unit.inl.h"
