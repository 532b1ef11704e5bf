// exp compiled for avx2; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS exp_avx2
#include "exp_unit.inl.h"
