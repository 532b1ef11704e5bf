// Experts of the types of one and two bits and ternary digits.
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/formats/bits.cuh"

namespace strata::kernels::cuda {
namespace {

template <class Launch>
std::optional<bool> launch_as(quant::Type type, const Launch& launch) {
  using quant::Type;
  switch (type) {
    case Type::Q1_0:
      return launch(Format<Type::Q1_0>());
    case Type::Q2_0:
      return launch(Format<Type::Q2_0>());
    case Type::TQ1_0:
      return launch(Format<Type::TQ1_0>());
    case Type::TQ2_0:
      return launch(Format<Type::TQ2_0>());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<bool> launch_experts_bits(quant::Type type, const HiddenLaunch& launch) {
  return launch_as(type, launch);
}
std::optional<bool> launch_experts_bits(quant::Type type, const DownLaunch& launch) { return launch_as(type, launch); }

}  // namespace strata::kernels::cuda
