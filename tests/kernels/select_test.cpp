// Choosing an instruction set by name.
#include "support.h"

namespace strata::kernels {
namespace {

TEST(Select, ScalarIsAlwaysThere) {
  EXPECT_TRUE(isa_available(Isa::kScalar));
  const auto kernels = select_kernels("scalar");
  ASSERT_TRUE(kernels.ok());
  EXPECT_EQ((*kernels)->isa, Isa::kScalar);
}

TEST(Select, AutoTakesTheBest) {
  const auto kernels = select_kernels("auto");
  ASSERT_TRUE(kernels.ok());
  EXPECT_EQ(*kernels, test::available_kernels().back());
}

TEST(Select, NamesGiveTheirTableOrSayThatTheMachineLacksIt) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    const auto kernels = select_kernels(isa_name(isa));
    EXPECT_EQ(kernels.ok(), isa_available(isa));
    if (kernels.ok()) {
      EXPECT_EQ((*kernels)->isa, isa);
      EXPECT_EQ(*kernels, &kernels_for(isa));
    } else {
      EXPECT_EQ(kernels.error().code, ErrorCode::kUnsupported);
    }
  }
}

TEST(Select, UnknownNamesListTheAllowedOnes) {
  for (const char* name : {"", "AVX2", "avx", "sse\x1b[2J"}) {
    const auto kernels = select_kernels(name);
    ASSERT_FALSE(kernels.ok());
    EXPECT_EQ(kernels.error().code, ErrorCode::kBadInput);
    for (const char* allowed : {"auto", "scalar", "avx2", "avx512"}) {
      EXPECT_NE(kernels.error().message.find(allowed), std::string::npos) << allowed;
    }
    EXPECT_EQ(kernels.error().message.find('\x1b'), std::string::npos);
  }
}

TEST(Select, TablesAreComplete) {
  test::for_each_isa([](const Kernels& k) {
    EXPECT_TRUE(k.decode && k.matmul && k.dot && k.axpy && k.rms_norm && k.l2_norm && k.rope);
    EXPECT_TRUE(k.silu_mul && k.swiglu_clamped && k.sigmoid_mul && k.silu_gate);
    EXPECT_TRUE(k.kv_store && k.attention && k.attention_span && k.attention_join);
    EXPECT_TRUE(k.conv_step && k.delta_step && k.delta_chunk);
  });
}

}  // namespace
}  // namespace strata::kernels
