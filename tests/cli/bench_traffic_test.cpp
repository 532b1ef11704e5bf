// Goal: the bytes of a step are those that a person counts from the shapes of the golden models, which are small enough
// to do so: 64 wide, heads of 32, 4 of queries and 2 of keys and values, 8 experts of which 2 are used, 512 tokens,
// matrices in BF16, vectors and routers in F32.
#include <gtest/gtest.h>

#include "cli/bench/traffic.h"
#include "cli/model_choice.h"
#include "cli/models.h"

namespace strata::cli {
namespace {

using kernels::KvType;

constexpr uint64_t kDim = 64, kQueries = 4 * 32, kKeys = 2 * 32, kValues = 2 * 32, kVocab = 512, kExperts = 8;
constexpr uint64_t kBf16 = 2, kF32 = 4, kUsed = 2;
constexpr uint64_t kEmbeddingRow = kDim * kBf16, kHead = kVocab * kDim * kBf16;
constexpr uint64_t kExpert = 3 * kDim * 32 * kBf16;
constexpr uint64_t kKvOfToken = kKeys + kValues;  // elements

Traffic traffic_of(const char* architecture, KvType kv_type) {
  auto model = open_model(test::golden_path(std::string("arch/") + architecture + "/model-bf16.gguf"));
  EXPECT_TRUE(model.ok());
  auto traffic = Traffic::of(**model, read_hparams(**model).value(), kv_type);
  EXPECT_TRUE(traffic.ok());
  return *traffic;
}

uint64_t qwen3moe_dense() {
  const uint64_t attention = (kDim * kQueries + kDim * kKeys + kDim * kValues + kQueries * kDim) * kBf16;
  const uint64_t norms = (2 * kDim + 2 * 32) * kF32;
  const uint64_t router = kDim * kExperts * kF32;
  return 3 * (attention + norms + router) + kDim * kF32;
}

TEST(Traffic, OfATokenIsTheHandCount) {
  for (const auto& [type, bytes] : {std::pair{KvType::kF32, uint64_t{4}}, std::pair{KvType::kF16, uint64_t{2}}}) {
    const Traffic traffic = traffic_of("qwen3moe", type);
    for (const int64_t position : {0, 1, 31, 32, 1000}) {
      const uint64_t context = 3 * static_cast<uint64_t>(position + 1) * kKvOfToken * bytes;
      EXPECT_EQ(traffic.token_bytes(position),
                qwen3moe_dense() + 3 * kUsed * kExpert + kHead + kEmbeddingRow + context);
    }
  }
}

TEST(Traffic, OfAPromptCountsWeightsOnce) {
  const Traffic traffic = traffic_of("qwen3moe", KvType::kF32);
  const StepRows rows{.first = 10, .n = 20, .experts = 7.5, .head = false};
  const uint64_t experts = 3 * kExpert * 15 / 2;
  EXPECT_EQ(traffic.step_bytes(rows), qwen3moe_dense() + experts + 20 * kEmbeddingRow + 3 * 30 * kKvOfToken * kF32);
}

TEST(Traffic, SeesNoMoreThanTheWindow) {
  const Traffic traffic = traffic_of("gpt-oss", KvType::kF16);  // a window of 16 on two of four layers
  const uint64_t token = kKvOfToken * 2;
  EXPECT_EQ(traffic.token_bytes(15) - traffic.token_bytes(0), 4 * 15 * token);
  EXPECT_EQ(traffic.token_bytes(99) - traffic.token_bytes(15), 2 * 84 * token);
  // Four rows together see what is in the windows of the first and the last, and of those between.
  const StepRows one{.first = 96, .n = 1, .experts = 2, .head = true};
  const StepRows four{.first = 96, .n = 4, .experts = 2, .head = true};
  EXPECT_EQ(traffic.step_bytes(four) - traffic.step_bytes(one), (2 * 3 + 2 * 3) * token + 3 * kEmbeddingRow);
}

// Two of eight layers attend to 4 blocks of 4 tokens and the incomplete one; a block's key has 16 values.
TEST(Traffic, OfSparseAttentionIsItsBudgetAndItsIndex) {
  const Traffic traffic = traffic_of("qwen4exp", KvType::kF16);
  const uint64_t token = 2 * kKvOfToken * 2, key = 2 * 16 * kF32;
  EXPECT_EQ(traffic.token_bytes(18) - traffic.token_bytes(3), 15 * token);
  EXPECT_EQ(traffic.token_bytes(19) - traffic.token_bytes(18), 5 * key);  // from then on keys are compared
  EXPECT_EQ(traffic.token_bytes(1019) - traffic.token_bytes(19), 250 * key);
}

TEST(Traffic, StateOfRecurrentLayersIsReadWhole) {
  auto model = open_model(test::golden_path("arch/qwen3next/model-bf16.gguf"));
  ASSERT_TRUE(model.ok());
  uint64_t tensors = 0;
  for (const gguf::TensorInfo& tensor : (*model)->tensors()) tensors += tensor.bytes;
  // Three of four layers: 2 key and 4 value heads of 16, 3 former inputs of each of their channels.
  const uint64_t state = 3 * (4 * 16 * 16 + 3 * (2 * 2 * 16 + 4 * 16)) * kF32;
  const uint64_t unused_experts = 4 * (kExperts - kUsed) * kExpert;
  const uint64_t embedding = kVocab * kDim * kBf16;
  EXPECT_EQ(traffic_of("qwen3next", KvType::kF32).token_bytes(7),
            tensors - unused_experts - embedding + kEmbeddingRow + state + 8 * kKvOfToken * kF32);
}

}  // namespace
}  // namespace strata::cli
