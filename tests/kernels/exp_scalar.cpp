// exp compiled for scalar; the flags are in CMakeLists.txt.
#define STRATA_ISA_NS exp_scalar
#include "exp_unit.inl.h"
