// Tiles of integer products of the types with blocks of 32 or 64.
#include "kernels/cuda/formats/blocks32.cuh"
#include "kernels/cuda/tiles_rounded.cuh"

namespace strata::kernels::cuda {

bool launch_tiles_blocks(const Product& p, void* workspace, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::Q4_0: launch_tiles_rounded<Format<Type::Q4_0>>(p, workspace, stream); return true;
    case Type::Q4_1: launch_tiles_rounded<Format<Type::Q4_1>>(p, workspace, stream); return true;
    case Type::Q5_0: launch_tiles_rounded<Format<Type::Q5_0>>(p, workspace, stream); return true;
    case Type::Q5_1: launch_tiles_rounded<Format<Type::Q5_1>>(p, workspace, stream); return true;
    case Type::Q8_0: launch_tiles_rounded<Format<Type::Q8_0>>(p, workspace, stream); return true;
    case Type::IQ4_NL: launch_tiles_rounded<Format<Type::IQ4_NL>>(p, workspace, stream); return true;
    case Type::MXFP4: launch_tiles_rounded<Format<Type::MXFP4>>(p, workspace, stream); return true;
    case Type::NVFP4: launch_tiles_rounded<Format<Type::NVFP4>>(p, workspace, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
