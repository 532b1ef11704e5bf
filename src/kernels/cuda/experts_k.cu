// Experts of Q2_K to Q6_K.
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/formats/k.cuh"

namespace strata::kernels::cuda {
namespace {

template <class Launch>
std::optional<bool> launch_as(quant::Type type, const Launch& launch) {
  using quant::Type;
  switch (type) {
    case Type::Q2_K:
      return launch(Format<Type::Q2_K>());
    case Type::Q3_K:
      return launch(Format<Type::Q3_K>());
    case Type::Q4_K:
      return launch(Format<Type::Q4_K>());
    case Type::Q5_K:
      return launch(Format<Type::Q5_K>());
    case Type::Q6_K:
      return launch(Format<Type::Q6_K>());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<bool> launch_experts_k(quant::Type type, const HiddenLaunch& launch) { return launch_as(type, launch); }
std::optional<bool> launch_experts_k(quant::Type type, const DownLaunch& launch) { return launch_as(type, launch); }

}  // namespace strata::kernels::cuda
