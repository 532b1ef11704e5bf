// Lookup tables of the codebook and four-bit float formats. Where an entry has several values, value j is byte j of its
// word (a signed byte). codebooks.cpp is made by scripts/make_codebooks.py.
#pragma once

#include <cstdint>

namespace strata::quant {

extern const int8_t kIq4nl[16];       // IQ4_NL, IQ4_XS
extern const int8_t kFp4X2[16];       // MXFP4, NVFP4: twice the E2M1 values
extern const uint8_t kSigns7[128];    // IQ2_XXS, IQ2_XS, IQ3_XXS: seven signs and their parity in bit 7
extern const uint64_t kIq2Xxs[256];   // 8 magnitudes
extern const uint64_t kIq2Xs[512];    // 8 magnitudes
extern const uint64_t kIq2S[1024];    // 8 magnitudes
extern const uint32_t kIq3Xxs[256];   // 4 magnitudes
extern const uint32_t kIq3S[512];     // 4 magnitudes
extern const uint64_t kIq1[2048];     // 8 values of -1, 0, 1; IQ1_S, IQ1_M

}  // namespace strata::quant
