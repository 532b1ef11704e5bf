// Matrix-vector products of the codebook types.
#include "kernels/cuda/formats/iq.cuh"
#include "kernels/cuda/matvec.cuh"

namespace strata::kernels::cuda {

bool launch_matvec_iq(const Product& p, int n_sms, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::IQ1_S: launch_matvec_rounded<Format<Type::IQ1_S>>(p, n_sms, stream); return true;
    case Type::IQ1_M: launch_matvec_rounded<Format<Type::IQ1_M>>(p, n_sms, stream); return true;
    case Type::IQ2_XXS: launch_matvec_rounded<Format<Type::IQ2_XXS>>(p, n_sms, stream); return true;
    case Type::IQ2_XS: launch_matvec_rounded<Format<Type::IQ2_XS>>(p, n_sms, stream); return true;
    case Type::IQ2_S: launch_matvec_rounded<Format<Type::IQ2_S>>(p, n_sms, stream); return true;
    case Type::IQ3_XXS: launch_matvec_rounded<Format<Type::IQ3_XXS>>(p, n_sms, stream); return true;
    case Type::IQ3_S: launch_matvec_rounded<Format<Type::IQ3_S>>(p, n_sms, stream); return true;
    case Type::IQ4_XS: launch_matvec_rounded<Format<Type::IQ4_XS>>(p, n_sms, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
