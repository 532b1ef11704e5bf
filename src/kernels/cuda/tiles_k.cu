// Tiles of integer products of Q2_K to Q6_K.
#include "kernels/cuda/formats/k.cuh"
#include "kernels/cuda/tiles_rounded.cuh"

namespace strata::kernels::cuda {

bool launch_tiles_k(const Product& p, void* workspace, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q2_K: launch_tiles_rounded<Format<Type::Q2_K>>(p, workspace, stream); return true;
    case Type::Q3_K: launch_tiles_rounded<Format<Type::Q3_K>>(p, workspace, stream); return true;
    case Type::Q4_K: launch_tiles_rounded<Format<Type::Q4_K>>(p, workspace, stream); return true;
    case Type::Q5_K: launch_tiles_rounded<Format<Type::Q5_K>>(p, workspace, stream); return true;
    case Type::Q6_K: launch_tiles_rounded<Format<Type::Q6_K>>(p, workspace, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
