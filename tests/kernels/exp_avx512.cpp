// exp compiled for avx512; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS exp_avx512
#include "exp_unit.inl.h"
