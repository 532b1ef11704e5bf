// TQ1_0 and TQ2_0 unpacked; the layouts are described beside their decoders in quant/decode/ternary.inl.h.
#pragma once

#include "kernels/cpu/q8/format.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

inline void no_group_scales(const SuperPanel& out) {
  for (int g = 0; g < kSuperGroups; g++) out.scales[g] = 1;
}

inline void unpack_tq1_0(const uint8_t* block, const SuperPanel& out) {
  no_group_scales(out);
  *out.d = f16_at(block + 52);
  const Codes one = splat(1);
  Codes a = load_codes(block), b = load_codes(block + 16), c = load_codes(block + 32);
  for (int n = 0; n < 5; n++) {
    store_codes(out.codes + 32 * n, ternary_digits(a) + one);
    store_codes(out.codes + 32 * n + 16, ternary_digits(b) + one);
    store_codes(out.codes + 160 + 16 * n, ternary_digits(c) + one);
    a = a + a + a;
    b = b + b + b;
    c = c + c + c;
  }
  store_codes(out.codes + 240, ternary_digits(times_powers_of_3(block + 48)) + one);
}

inline void unpack_tq2_0(const uint8_t* block, const SuperPanel& out) {
  no_group_scales(out);
  *out.d = f16_at(block + 64);
  uint8_t* codes = out.codes;
  for (int half = 0; half < 2; half++) {
    const Codes low = load_codes(block + 32 * half);
    const Codes high = load_codes(block + 32 * half + 16);
    for (int plane = 0; plane < 4; plane++, codes += 32) {
      store_codes(codes, field(low, 2 * plane, 3));
      store_codes(codes + 16, field(high, 2 * plane, 3));
    }
  }
}

constexpr Q8Format kQ8TernaryFormats[] = {
    super_format<54, unpack_tq1_0>(quant::Type::TQ1_0, 1, 2),
    super_format<66, unpack_tq2_0>(quant::Type::TQ2_0, 1, 3),
};

}  // namespace strata::kernels::STRATA_ISA_NS
