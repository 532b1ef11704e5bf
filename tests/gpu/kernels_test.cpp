// The kernels of CUDA against plain doubles, and against the host's operations over types and shapes that have kernels
// of their own. Skipped where there is no GPU.
#include <algorithm>
#include <cmath>

#include "kernels_cases.h"
#include "kernels_rig.h"

namespace strata::test {
namespace {

class CudaKernels : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no CUDA device";
  }
  static bool deterministic() { return GetParam(); }
};

TEST_P(CudaKernels, ComputeTheFormulaAndWriteNothingElse) {
  GpuRig rig(deterministic());
  for (const auto& c : all_op_cases(rig.host())) {
    for (const uint64_t seed : {1, 2}) rig.check(*c, seed, false);
  }
}

TEST_P(CudaKernels, ReplayWithOtherInputsThroughAGraph) {
  GpuRig rig(deterministic());
  for (const auto& c : all_op_cases(rig.host())) rig.check(*c, 7, true);
}

TEST_P(CudaKernels, NoLiveRowsMeansNothingIsTouched) {
  GpuRig rig(deterministic());
  for (const auto& c : all_op_cases(rig.host())) {
    // Groups are scratch of an operation that the host does not touch without rows.
    if (c->op() == device::op_index<device::ExpertFfn>()) continue;
    if (c->op() == device::op_index<device::ShareExperts>()) continue;  // tells the host so
    Random random(1);
    c->fill(random);
    c->set_empty();
    const auto before = c->snapshot();
    rig.run(*c, false);
    EXPECT_EQ(c->snapshot(), before) << c->name();
  }
}

TEST_P(CudaKernels, ProductsOfEveryTypeAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_product_cases(rig.host(), cases);
  for (const auto& c : cases) rig.check(*c, 3, false);
}

TEST_P(CudaKernels, ProjectionsOfNormedRowsAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_projection_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const bool graph : {false, true}) rig.check(*c, 3, graph);
  }
}

TEST_P(CudaKernels, EmbeddingsOfEveryTypeAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_embed_cases(rig.host(), cases);
  for (const auto& c : cases) rig.check(*c, 3, false);
}

TEST_P(CudaKernels, ExpertsOfEveryTypeAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_routed_cases(rig.host(), cases);
  SameRows total;
  for (const auto& c : cases) {
    const SameRows rows = same_routed_rows(rig.check(*c, 4, false));
    total.all += rows.all;
    total.same += rows.same;
  }
  EXPECT_GT(total.same, total.all * 95 / 100) << "of " << total.all;
}

TEST_P(CudaKernels, ExpertsAreReadWhereTheyLieInTheHostsMemory) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_linked_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const bool graph : {false, true}) rig.check(*c, 9, graph);
  }
}

TEST_P(CudaKernels, AttentionOfPromptsIsTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_prompt_attention_cases(rig.host(), cases);
  for (const auto& c : cases) rig.check(*c, 5, false);
}

TEST_P(CudaKernels, RowsThatAreAppendedAttendAsTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_append_attend_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const bool graph : {false, true}) rig.check(*c, 5, graph);
  }
}

TEST_P(CudaKernels, RoutesAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_route_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const uint64_t seed : {1, 2, 3}) rig.check(*c, seed, false);
  }
}

TEST_P(CudaKernels, RoutesOfNormedRowsAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_norm_route_cases(rig.host(), cases);
  for (const auto& c : cases) {
    rig.check(*c, 1, false);
    rig.check(*c, 2, true);
  }
}

TEST_P(CudaKernels, SumsOfExpertsAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_summed_expert_cases(rig.host(), cases);
  for (const auto& c : cases) {
    rig.check(*c, 1, false);
    rig.check(*c, 2, true);
  }
}

TEST_P(CudaKernels, LongSegmentsOfDeltaNetsAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_long_delta_cases(rig.host(), cases);
  for (const auto& c : cases) rig.check(*c, 6, false);
}

TEST_P(CudaKernels, StreamsAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_stream_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const bool graph : {false, true}) rig.check(*c, 1, graph);
  }
}

TEST_P(CudaKernels, ChoicesOfBlocksAndAttentionToThemAreTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_sparse_prompt_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const bool graph : {false, true}) rig.check(*c, 1, graph);
  }
}

TEST_P(CudaKernels, LatentAttentionIsTheHosts) {
  GpuRig rig(deterministic());
  OpCases cases;
  add_wide_latent_cases(rig.host(), cases);
  for (const auto& c : cases) {
    for (const bool graph : {false, true}) rig.check(*c, 1, graph);
  }
}

// The bytes of the first rows of y after a product of `live` rows.
std::vector<float> first_row_of_product(GpuRig& rig, quant::Type type, device::Rounding rounding, int32_t live) {
  OpCases cases;
  const Grid<float>* y = add_rows_case(rig.host(), cases, type, rounding, live);
  Random random(8);
  cases[0]->fill(random);
  rig.run(*cases[0], false);
  return {y->row(0), y->row(0) + y->cols()};
}

TEST(CudaDeterminism, ARowsBitsDoNotDependOnItsNeighbours) {
  if (!has_gpu()) GTEST_SKIP() << "no CUDA device";
  GpuRig rig(true);
  using device::Rounding;
  using quant::Type;
  const std::pair<Type, Rounding> forms[] = {{Type::F32, Rounding::kNone},    {Type::Q4_K, Rounding::kNone},
                                             {Type::Q4_K, Rounding::kOnce},   {Type::Q8_0, Rounding::kOnce},
                                             {Type::Q6_K, Rounding::kTwice}};
  for (const auto& [type, rounding] : forms) {
    const std::vector<float> alone = first_row_of_product(rig, type, rounding, 1);
    for (const int32_t live : {3, 9, 70}) {
      EXPECT_EQ(first_row_of_product(rig, type, rounding, live), alone) << quant::info(type).name << ", " << live;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, CudaKernels, testing::Bool(),
                         [](const auto& mode) { return mode.param ? "Deterministic" : "Fast"; });

}  // namespace
}  // namespace strata::test
