// The CPU kernels compiled for avx512 with integer dot products; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS avx512vnni
#define STRATA_ISA_ID Isa::kAvx512Vnni
#include "kernels/cpu/unit.inl.h"
