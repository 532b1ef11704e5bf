// Tiles of integer products of the codebook types.
#include "kernels/cuda/formats/iq.cuh"
#include "kernels/cuda/tiles_rounded.cuh"

namespace strata::kernels::cuda {

bool launch_tiles_iq(const Product& p, void* workspace, cudaStream_t stream) {
  using quant::Type;
  switch (p.parts[0].type) {
    case Type::IQ1_S: launch_tiles_rounded<Format<Type::IQ1_S>>(p, workspace, stream); return true;
    case Type::IQ1_M: launch_tiles_rounded<Format<Type::IQ1_M>>(p, workspace, stream); return true;
    case Type::IQ2_XXS: launch_tiles_rounded<Format<Type::IQ2_XXS>>(p, workspace, stream); return true;
    case Type::IQ2_XS: launch_tiles_rounded<Format<Type::IQ2_XS>>(p, workspace, stream); return true;
    case Type::IQ2_S: launch_tiles_rounded<Format<Type::IQ2_S>>(p, workspace, stream); return true;
    case Type::IQ3_XXS: launch_tiles_rounded<Format<Type::IQ3_XXS>>(p, workspace, stream); return true;
    case Type::IQ3_S: launch_tiles_rounded<Format<Type::IQ3_S>>(p, workspace, stream); return true;
    case Type::IQ4_XS: launch_tiles_rounded<Format<Type::IQ4_XS>>(p, workspace, stream); return true;
    default: return false;
  }
}

}  // namespace strata::kernels::cuda
