#include "kernels/cuda/experts.cuh"

namespace strata::kernels::cuda {
namespace {

template <class Launch>
bool launch_experts(const Product& product, const Launch& launch) {
  if (product.max_items == 0 || product.rows == 0) return true;
  if (product.format == ActFormat::kNone) return false;
  const quant::Type type = product.parts[0].type;
  using OfGroup = std::optional<bool> (*)(quant::Type, const Launch&);
  for (const OfGroup of_group : {OfGroup{launch_experts_k}, OfGroup{launch_experts_blocks}, OfGroup{launch_experts_iq},
                                 OfGroup{launch_experts_bits}}) {
    if (const std::optional<bool> launched = of_group(type, launch)) return *launched;
  }
  return false;
}

}  // namespace

bool launch_expert_hidden(const Product& product, const ExpertLaunch& launch) {
  return launch_experts(product, HiddenLaunch{product, launch});
}

bool launch_expert_down(const Product& product, const ExpertSum& sum, bool after_hidden, const ExpertLaunch& launch) {
  return launch_experts(product, DownLaunch{product, sum, after_hidden, launch});
}

}  // namespace strata::kernels::cuda
