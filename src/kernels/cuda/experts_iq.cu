// Experts of the codebook types.
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/formats/iq.cuh"

namespace strata::kernels::cuda {
namespace {

template <class Launch>
std::optional<bool> launch_as(quant::Type type, const Launch& launch) {
  using quant::Type;
  switch (type) {
    case Type::IQ1_S:
      return launch(Format<Type::IQ1_S>());
    case Type::IQ1_M:
      return launch(Format<Type::IQ1_M>());
    case Type::IQ2_XXS:
      return launch(Format<Type::IQ2_XXS>());
    case Type::IQ2_XS:
      return launch(Format<Type::IQ2_XS>());
    case Type::IQ2_S:
      return launch(Format<Type::IQ2_S>());
    case Type::IQ3_XXS:
      return launch(Format<Type::IQ3_XXS>());
    case Type::IQ3_S:
      return launch(Format<Type::IQ3_S>());
    case Type::IQ4_XS:
      return launch(Format<Type::IQ4_XS>());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<bool> launch_experts_iq(quant::Type type, const HiddenLaunch& launch) { return launch_as(type, launch); }
std::optional<bool> launch_experts_iq(quant::Type type, const DownLaunch& launch) { return launch_as(type, launch); }

}  // namespace strata::kernels::cuda
