#include "kernels/q8.h"

namespace strata::kernels {

ActFormat act_format(quant::Type weight) {
  using quant::Type;
  switch (weight) {
    case Type::Q2_K:
    case Type::Q3_K:
    case Type::Q4_K:
    case Type::Q5_K:
    case Type::Q6_K:
    case Type::IQ1_S:
    case Type::IQ1_M:
    case Type::IQ2_XXS:
    case Type::IQ2_XS:
    case Type::IQ2_S:
    case Type::IQ3_XXS:
    case Type::IQ3_S:
    case Type::IQ4_XS:
    case Type::TQ1_0:
    case Type::TQ2_0:
      return ActFormat::kSuper;
    case Type::Q4_0:
    case Type::Q4_1:
    case Type::Q5_0:
    case Type::Q5_1:
    case Type::Q8_0:
    case Type::IQ4_NL:
    case Type::MXFP4:
    case Type::NVFP4:
    case Type::Q1_0:
    case Type::Q2_0:
      return ActFormat::kBlock;
    default:
      return ActFormat::kNone;
  }
}

}  // namespace strata::kernels
