// Matrix-vector products of the types with blocks of 32 or 64.
#include "kernels/cuda/formats/blocks32.cuh"
#include "kernels/cuda/matvec.cuh"

namespace strata::kernels::cuda {

bool launch_matvec_blocks(const Product& p, int n_sms, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q4_0: launch_matvec_rounded<Format<Type::Q4_0>>(p, n_sms, stream); return true;
    case Type::Q4_1: launch_matvec_rounded<Format<Type::Q4_1>>(p, n_sms, stream); return true;
    case Type::Q5_0: launch_matvec_rounded<Format<Type::Q5_0>>(p, n_sms, stream); return true;
    case Type::Q5_1: launch_matvec_rounded<Format<Type::Q5_1>>(p, n_sms, stream); return true;
    case Type::Q8_0: launch_matvec_rounded<Format<Type::Q8_0>>(p, n_sms, stream); return true;
    case Type::IQ4_NL: launch_matvec_rounded<Format<Type::IQ4_NL>>(p, n_sms, stream); return true;
    case Type::MXFP4: launch_matvec_rounded<Format<Type::MXFP4>>(p, n_sms, stream); return true;
    case Type::NVFP4: launch_matvec_rounded<Format<Type::NVFP4>>(p, n_sms, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
