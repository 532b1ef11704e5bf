// Round-to-nearest in blocks of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0) and the activation formats Q8_1 and Q8_K. Codes are
// made with the scale as it was before it was rounded to f16, which is what other programs do to the byte.
#include "quant/encode/family.h"
#include "quant/encode/numbers.h"

namespace strata::quant {
namespace {

void store_fifth_bits(uint8_t* to, const uint8_t* codes) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; i++) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  store_le(to, bits);
}

// d * (q - kZero), q in 0..2 * kZero - 1: the extreme has the code 0.
template <int kZero>
void symmetric_codes(const float* x, uint8_t* block, uint8_t* codes) {
  const float d = extreme(x, 32) / -kZero;
  const float inverse = inverse_or_zero(d);
  store_f16(block, d);
  for (int i = 0; i < 32; i++) {
    codes[i] = static_cast<uint8_t>(truncated(x[i] * inverse + (kZero + 0.5f), 0, 2 * kZero - 1));
  }
}

// d * q + m, q in 0..kMax: the smallest value has the code 0, the largest kMax.
template <int kMax>
void affine_codes(const float* x, uint8_t* block, uint8_t* codes) {
  float min = x[0], max = x[0];
  for (int i = 1; i < 32; i++) {
    min = x[i] < min ? x[i] : min;
    max = x[i] > max ? x[i] : max;
  }
  const float d = (max - min) / kMax;
  const float inverse = inverse_or_zero(d);
  store_f16(block, d);
  store_f16(block + 2, min);
  for (int i = 0; i < 32; i++) codes[i] = static_cast<uint8_t>(truncated((x[i] - min) * inverse + 0.5f, 0, kMax));
}

void encode_block_q4_0(const float* x, uint8_t* block) {
  uint8_t codes[32];
  symmetric_codes<8>(x, block, codes);
  store_nibbles(block + 2, codes, 32);
}

void encode_block_q4_1(const float* x, uint8_t* block) {
  uint8_t codes[32];
  affine_codes<15>(x, block, codes);
  store_nibbles(block + 4, codes, 32);
}

void encode_block_q5_0(const float* x, uint8_t* block) {
  uint8_t codes[32];
  symmetric_codes<16>(x, block, codes);
  store_fifth_bits(block + 2, codes);
  store_nibbles(block + 6, codes, 32);
}

void encode_block_q5_1(const float* x, uint8_t* block) {
  uint8_t codes[32];
  affine_codes<31>(x, block, codes);
  store_fifth_bits(block + 4, codes);
  store_nibbles(block + 8, codes, 32);
}

// Scale to block, 32 codes to `codes`; returns d * (sum of codes), the sum that Q8_1 carries for dot products.
float byte_codes(const float* x, uint8_t* block, uint8_t* codes) {
  const float d = max_magnitude(x, 32) / 127;
  const float inverse = inverse_or_zero(d);
  store_f16(block, d);
  int sum = 0;
  for (int i = 0; i < 32; i++) {
    const int code = round_away(x[i] * inverse, -127, 127);
    codes[i] = static_cast<uint8_t>(code);
    sum += code;
  }
  return d * static_cast<float>(sum);
}

void encode_block_q8_0(const float* x, uint8_t* block) { byte_codes(x, block, block + 2); }

void encode_block_q8_1(const float* x, uint8_t* block) { store_f16(block + 2, byte_codes(x, block, block + 4)); }

// f32 d, of the sign opposite to the extreme's, which has the code -127; 256 codes; i16 sums of 16 codes.
void encode_block_q8_k(const float* x, uint8_t* block) {
  const float v = extreme(x, 256);
  const float inverse = v != 0 ? -127 / v : 0;
  store_le(block, inverse_or_zero(inverse));
  for (int g = 0; g < 16; g++) {
    int sum = 0;
    for (int i = 16 * g; i < 16 * g + 16; i++) {
      const int code = round_even(inverse * x[i], -127, 127);
      block[4 + i] = static_cast<uint8_t>(code);
      sum += code;
    }
    store_le(block + 260 + 2 * g, static_cast<int16_t>(sum));
  }
}

constexpr EncoderRow kRows[] = {
    {Type::Q4_0, encode_blocks<32, 18, encode_block_q4_0>},
    {Type::Q4_1, encode_blocks<32, 20, encode_block_q4_1>},
    {Type::Q5_0, encode_blocks<32, 22, encode_block_q5_0>},
    {Type::Q5_1, encode_blocks<32, 24, encode_block_q5_1>},
    {Type::Q8_0, encode_blocks<32, 34, encode_block_q8_0>},
    {Type::Q8_1, encode_blocks<32, 36, encode_block_q8_1>},
    {Type::Q8_K, encode_blocks<256, 292, encode_block_q8_k>},
};

}  // namespace

std::span<const EncoderRow> blocks32_encoders() { return kRows; }

}  // namespace strata::quant
