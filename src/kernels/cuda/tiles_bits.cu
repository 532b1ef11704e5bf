// Tiles of integer products of the types of one and two bits and ternary digits.
#include "kernels/cuda/formats/bits.cuh"
#include "kernels/cuda/tiles_rounded.cuh"

namespace strata::kernels::cuda {

bool launch_tiles_bits(const Product& p, void* workspace, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q1_0: launch_tiles_rounded<Format<Type::Q1_0>>(p, workspace, stream); return true;
    case Type::Q2_0: launch_tiles_rounded<Format<Type::Q2_0>>(p, workspace, stream); return true;
    case Type::TQ1_0: launch_tiles_rounded<Format<Type::TQ1_0>>(p, workspace, stream); return true;
    case Type::TQ2_0: launch_tiles_rounded<Format<Type::TQ2_0>>(p, workspace, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
