// Which file instantiates the kernels of experts for a type: one for each group of types, so that they compile beside
// each other.
#pragma once

#include <optional>

#include "kernels/cuda/expert_down.cuh"
#include "kernels/cuda/expert_hidden.cuh"

namespace strata::kernels::cuda {

struct HiddenLaunch {
  const Product& product;
  const ExpertLaunch& launch;
  template <class F>
  bool operator()(F) const {
    return launch_expert_hidden_as<F>(product, launch);
  }
};
struct DownLaunch {
  const Product& product;
  const ExpertSum& sum;
  bool after_hidden;
  const ExpertLaunch& launch;
  template <class F>
  bool operator()(F) const {
    return launch_expert_down_as<F>(product, sum, after_hidden, launch);
  }
};

// Nothing for a type of another group.
std::optional<bool> launch_experts_k(quant::Type type, const HiddenLaunch& launch);
std::optional<bool> launch_experts_k(quant::Type type, const DownLaunch& launch);
std::optional<bool> launch_experts_blocks(quant::Type type, const HiddenLaunch& launch);
std::optional<bool> launch_experts_blocks(quant::Type type, const DownLaunch& launch);
std::optional<bool> launch_experts_iq(quant::Type type, const HiddenLaunch& launch);
std::optional<bool> launch_experts_iq(quant::Type type, const DownLaunch& launch);
std::optional<bool> launch_experts_bits(quant::Type type, const HiddenLaunch& launch);
std::optional<bool> launch_experts_bits(quant::Type type, const DownLaunch& launch);

}  // namespace strata::kernels::cuda
