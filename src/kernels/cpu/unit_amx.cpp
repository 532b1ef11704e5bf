// The CPU kernels compiled for avx512 with the matrix unit (AMX int8); the flags are in CMakeLists.txt.
#define STRATA_ISA_NS amx
#define STRATA_ISA_ID Isa::kAmx
#include "kernels/cpu/unit.inl.h"
