// Matrix-vector products of the types of one and two bits and ternary digits.
#include "kernels/cuda/formats/bits.cuh"
#include "kernels/cuda/matvec.cuh"

namespace strata::kernels::cuda {

bool launch_matvec_bits(const Product& p, int n_sms, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q1_0: launch_matvec_rounded<Format<Type::Q1_0>>(p, n_sms, stream); return true;
    case Type::Q2_0: launch_matvec_rounded<Format<Type::Q2_0>>(p, n_sms, stream); return true;
    case Type::TQ1_0: launch_matvec_rounded<Format<Type::TQ1_0>>(p, n_sms, stream); return true;
    case Type::TQ2_0: launch_matvec_rounded<Format<Type::TQ2_0>>(p, n_sms, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
