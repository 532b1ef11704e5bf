// Staged matrix-vector products of the types with blocks of 32 that matrices of models have.
#include "kernels/cuda/formats/blocks32.cuh"
#include "kernels/cuda/matvec_staged.cuh"

namespace strata::kernels::cuda {

bool launch_matvec_staged_blocks(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q4_0: return launch_matvec_staged_of<Format<Type::Q4_0>>(p, n_sms, max_shared_bytes, stream);
    case Type::Q8_0: return launch_matvec_staged_of<Format<Type::Q8_0>>(p, n_sms, max_shared_bytes, stream);
    case Type::MXFP4: return launch_matvec_staged_of<Format<Type::MXFP4>>(p, n_sms, max_shared_bytes, stream);
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
