// Tensors that are missing, of another shape or of a type that weights can't have: every tensor of every golden model.
#include <algorithm>

#include "model/refusal.h"

namespace strata::test {
namespace {

// The block of glm4moe that drafts tokens: no tensor of it is looked at.
bool is_unused(const std::string& arch, const std::string& name) {
  return arch == "glm4moe" && name.starts_with("blk.3.");
}

// What a file may lack: the output matrix may be the embedding; glm4moe comes with and without norms of heads and a
// bias on the choice of experts.
bool is_optional(const std::string& arch, const std::string& name) {
  if (name == "output.weight") return arch != "gpt-oss" && arch != "olmoe" && arch != "qwen2moe";
  if (arch != "glm4moe") return false;
  return name.ends_with("attn_q_norm.weight") || name.ends_with("attn_k_norm.weight") ||
         name.ends_with("exp_probs_b.bias");
}

// The number of tokens is the embedding's own, so that one of another number shows at the output matrix.
std::vector<std::string> names_to_expect(const std::string& tensor, bool changes_vocabulary) {
  return {tensor == "token_embd.weight" && changes_vocabulary ? "output.weight" : tensor};
}

class Tensors : public testing::TestWithParam<const char*> {
 protected:
  std::string arch() const { return GetParam(); }

  // Opens a copy for each tensor, changed by `change`, which may decline with false.
  template <class Change>
  void expect_each_refused(const Change& change, bool changes_vocabulary) {
    const ModelCopy original(arch());
    int changed = 0;
    for (const ModelCopy::Tensor& t : original.tensors()) {
      if (t.name == model::kNgramTable && changes_vocabulary) continue;  // may have more rows than are used
      ModelCopy copy = original;
      if (is_unused(arch(), t.name)) continue;
      if (!change(copy.tensor(t.name))) continue;
      SCOPED_TRACE(t.name);
      expect_refused(open_copy(copy), names_to_expect(t.name, changes_vocabulary));
      changed++;
    }
    EXPECT_GT(changed, std::ssize(original.tensors()) / 2);
  }
};
INSTANTIATE_TEST_SUITE_P(All, Tensors, testing::ValuesIn(kGoldenArchs), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Tensors, EveryMissingTensorIsNamed) {
  const ModelCopy original(arch());
  int optional = 0;
  for (const ModelCopy::Tensor& t : original.tensors()) {
    SCOPED_TRACE(t.name);
    ModelCopy copy = original;
    copy.remove_tensor(t.name);
    const Status status = open_copy(copy);
    if (is_unused(arch(), t.name)) {
      EXPECT_TRUE(status.ok()) << status.error().message;
    } else if (is_optional(arch(), t.name)) {
      EXPECT_TRUE(status.ok()) << status.error().message;
      optional++;
    } else {
      expect_refused(status, {t.name, "missing"});
    }
  }
  const bool output = is_optional(arch(), "output.weight");
  EXPECT_EQ(optional, arch() == "glm4moe" ? 1 + 3 * 2 + 2 : output ? 1 : 0);
}

TEST_P(Tensors, ALayerWithoutExpertsIsRefused) {
  ModelCopy copy(arch());
  std::erase_if(copy.tensors(), [](const ModelCopy::Tensor& t) {
    return t.name.starts_with("blk.1.") && t.name.find("_exps.") != std::string::npos;
  });
  expect_refused(open_copy(copy), {"blk.1.ffn_gate_exps.weight", "missing"});
}

// The same bytes with the first two dimensions exchanged.
TEST_P(Tensors, EveryTransposedTensorIsNamed) {
  expect_each_refused([](ModelCopy::Tensor& t) {
    if (t.ne.size() == 1) t.ne.insert(t.ne.begin(), 1);
    else if (t.ne[0] == t.ne[1]) return false;
    else std::swap(t.ne[0], t.ne[1]);
    return true;
  }, false);
}

TEST_P(Tensors, EveryTensorThatIsOneRowShortIsNamed) {
  expect_each_refused([](ModelCopy::Tensor& t) {
    if (t.ne.back() == 1) return false;
    const size_t slice = t.data.size() / t.ne.back();
    t.ne.back()--;
    t.data.resize(t.data.size() - slice);
    return true;
  }, true);
}

TEST_P(Tensors, EveryTensorWithAnotherDimensionIsNamed) {
  expect_each_refused([](ModelCopy::Tensor& t) {
    t.ne.push_back(2);
    t.data.resize(t.data.size() * 2);
    return true;
  }, false);
}

// I32 is a type of the container for tables of numbers, not one for weights.
TEST_P(Tensors, EveryTensorOfIntegersIsNamed) {
  expect_each_refused([](ModelCopy::Tensor& t) {
    const uint64_t n = t.ne[0] * t.rows();
    t.type = static_cast<uint32_t>(quant::Type::I32);
    t.data.assign(n * 4, std::byte{1});
    return true;
  }, false);
}

TEST(Tensors16Bit, BiasesOfExpertsHaveToBeFloat32) {
  ModelCopy copy("gpt-oss");
  ModelCopy::Tensor& bias = copy.tensor("blk.2.ffn_up_exps.bias");
  bias.type = static_cast<uint32_t>(quant::Type::F16);
  bias.data.resize(bias.data.size() / 2);
  expect_refused(open_copy(copy), {"blk.2.ffn_up_exps.bias", "F16"});
}

TEST(FusedExperts, FusedAndSeparateTogetherAreRefused) {
  ModelCopy copy("qwen3moe");
  ModelCopy::Tensor both = copy.tensor("blk.1.ffn_gate_exps.weight");
  both.name = "blk.1.ffn_gate_up_exps.weight";
  both.ne[1] *= 2;
  both.data.resize(both.data.size() * 2);
  copy.add_tensor(both);
  expect_refused(open_copy(copy), {"blk.1."});
}

}  // namespace
}  // namespace strata::test
