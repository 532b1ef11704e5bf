#include "quant/encode.h"

#include "quant/encode/family.h"

namespace strata::quant {

EncodeFn find_encoder(Type type) {
  for (const auto family : {plain_encoders(), blocks32_encoders(), bits_encoders(), ternary_encoders(), fp4_encoders(),
                            k_affine_encoders(), k_symmetric_encoders(), iq4_encoders()}) {
    for (const EncoderRow& row : family) {
      if (row.type == type) return row.encode;
    }
  }
  return nullptr;
}

}  // namespace strata::quant
