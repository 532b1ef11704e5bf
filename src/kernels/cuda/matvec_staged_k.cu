// Staged matrix-vector products of Q2_K to Q6_K.
#include "kernels/cuda/formats/k.cuh"
#include "kernels/cuda/matvec_staged.cuh"

namespace strata::kernels::cuda {

bool launch_matvec_staged_k(const Product& p, int n_sms, size_t max_shared_bytes, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q2_K: return launch_matvec_staged_of<Format<Type::Q2_K>>(p, n_sms, max_shared_bytes, stream);
    case Type::Q3_K: return launch_matvec_staged_of<Format<Type::Q3_K>>(p, n_sms, max_shared_bytes, stream);
    case Type::Q4_K: return launch_matvec_staged_of<Format<Type::Q4_K>>(p, n_sms, max_shared_bytes, stream);
    case Type::Q5_K: return launch_matvec_staged_of<Format<Type::Q5_K>>(p, n_sms, max_shared_bytes, stream);
    case Type::Q6_K: return launch_matvec_staged_of<Format<Type::Q6_K>>(p, n_sms, max_shared_bytes, stream);
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
