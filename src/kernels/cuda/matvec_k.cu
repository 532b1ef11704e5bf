// Matrix-vector products of Q2_K to Q6_K.
#include "kernels/cuda/formats/k.cuh"
#include "kernels/cuda/matvec.cuh"

namespace strata::kernels::cuda {

bool launch_matvec_k(const Product& p, int n_sms, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q2_K: launch_matvec_rounded<Format<Type::Q2_K>>(p, n_sms, stream); return true;
    case Type::Q3_K: launch_matvec_rounded<Format<Type::Q3_K>>(p, n_sms, stream); return true;
    case Type::Q4_K: launch_matvec_rounded<Format<Type::Q4_K>>(p, n_sms, stream); return true;
    case Type::Q5_K: launch_matvec_rounded<Format<Type::Q5_K>>(p, n_sms, stream); return true;
    case Type::Q6_K: launch_matvec_rounded<Format<Type::Q6_K>>(p, n_sms, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
