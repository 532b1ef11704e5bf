// Experts of the types with blocks of 32 or 64.
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/formats/blocks32.cuh"

namespace strata::kernels::cuda {
namespace {

template <class Launch>
std::optional<bool> launch_as(quant::Type type, const Launch& launch) {
  using quant::Type;
  switch (type) {
    case Type::Q4_0:
      return launch(Format<Type::Q4_0>());
    case Type::Q4_1:
      return launch(Format<Type::Q4_1>());
    case Type::Q5_0:
      return launch(Format<Type::Q5_0>());
    case Type::Q5_1:
      return launch(Format<Type::Q5_1>());
    case Type::Q8_0:
      return launch(Format<Type::Q8_0>());
    case Type::IQ4_NL:
      return launch(Format<Type::IQ4_NL>());
    case Type::MXFP4:
      return launch(Format<Type::MXFP4>());
    case Type::NVFP4:
      return launch(Format<Type::NVFP4>());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<bool> launch_experts_blocks(quant::Type type, const HiddenLaunch& launch) {
  return launch_as(type, launch);
}
std::optional<bool> launch_experts_blocks(quant::Type type, const DownLaunch& launch) {
  return launch_as(type, launch);
}

}  // namespace strata::kernels::cuda
