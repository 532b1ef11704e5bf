// The kernels' exp over whole arrays, compiled per instruction set by exp_*.cpp: no kernel of the table shows it for
// arguments above 0.
#include "kernels/cpu/exp.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

void exp_all(const float* x, float* out, int64_t n);
void exp_all(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += Vec::kLanes) store_upto(exp(load_upto(x + i, n - i)), out + i, n - i);
}

}  // namespace strata::kernels::STRATA_ISA_NS
