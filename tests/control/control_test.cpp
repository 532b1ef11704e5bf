// Controls: each fault here has to make a check fail, and the same check has to pass without it. Weight faults are made
// in a copy of the file; faults of the program are switched on in libraries that were built with STRATA_MUTATIONS.
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "base/mutation.h"
#include "device/combine_check.h"
#include "engine/golden_check.h"
#include "support/golden.h"

namespace strata::test {
namespace {

// The place of a tensor in its file.
gguf::TensorInfo tensor_of(const std::string& path, const std::string& name) {
  auto model = gguf::Model::open(path, real_file_system());
  const gguf::TensorInfo* t = model.ok() ? (*model)->find_tensor(name) : nullptr;
  if (t == nullptr) {
    ADD_FAILURE() << "no tensor " << name << " in " << path;
    return {};
  }
  return *t;
}

bool passes(const GoldenModel& golden, Cut cut) {
  const double worst = worst_difference(golden, test_config(), cut);
  return worst >= 0 && worst <= golden.limit;
}

class MutationScope {
 public:
  explicit MutationScope(Mutation mutation) { g_mutation = mutation; }
  ~MutationScope() { g_mutation = Mutation::kNone; }
};

// Writes `golden` with changed bytes to a new file and returns it with that path.
template <class Change>
GoldenModel changed(const GoldenModel& golden, const TempDir& dir, const Change& change) {
  std::vector<uint8_t> bytes = read_bytes(golden.path);
  change(bytes);
  GoldenModel copy = golden;
  copy.path = dir.file("changed.gguf");
  std::ofstream(copy.path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return copy;
}

const char* const kArchs[] = {"qwen3moe", "gpt-oss", "qwen3next", "qwen4exp"};

TEST(Control, UnchangedFilesPass) {
  const TempDir dir;
  for (const char* arch : kArchs) {
    EXPECT_TRUE(passes(changed(load_arch_golden(arch), dir, [](auto&) {}), Cut::kWhole)) << arch;
  }
}

TEST(Control, FlippedWeightBitFailsArchGolden) {
  const TempDir dir;
  // The highest mantissa bit of one BF16 weight, and the sign of another.
  for (const char* arch : kArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    for (const char* name : {"output.weight", "blk.0.ffn_down_exps.weight", "blk.1.ffn_gate_exps.weight"}) {
      const gguf::TensorInfo t = tensor_of(golden.path, name);
      for (const auto& [element, bit] : {std::pair<size_t, int>{77, 6}, {1031, 15}}) {
        const GoldenModel flipped = changed(golden, dir, [&](std::vector<uint8_t>& bytes) {
          bytes[t.file_offset + 2 * element + static_cast<size_t>(bit / 8)] ^= static_cast<uint8_t>(1 << (bit % 8));
        });
        EXPECT_FALSE(passes(flipped, Cut::kWhole)) << arch << " " << name << " element " << element << " bit " << bit;
      }
    }
  }
}

TEST(Control, SwappedExpertFailsArchGolden) {
  const TempDir dir;
  for (const char* arch : kArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    const gguf::TensorInfo t = tensor_of(golden.path, "blk.0.ffn_up_exps.weight");
    const auto expert_bytes = static_cast<int64_t>(t.row_bytes * t.ne[1]);
    const GoldenModel swapped = changed(golden, dir, [&](std::vector<uint8_t>& bytes) {
      const auto first = bytes.begin() + static_cast<int64_t>(t.file_offset);
      std::swap_ranges(first, first + expert_bytes, first + expert_bytes);
    });
    EXPECT_FALSE(passes(swapped, Cut::kWhole)) << arch;
  }
}

TEST(Control, RowsSummedInArrivalOrderFailCombineCheck) {
  EXPECT_TRUE(combine_sums_in_rank_order());
  const MutationScope scope(Mutation::kSumInArrivalOrder);
  EXPECT_FALSE(combine_sums_in_rank_order());
}

TEST(Control, ChunkBorderOffByOneFailsArchGolden) {
  for (const char* arch : kArchs) {
    const GoldenModel golden = load_arch_golden(arch);
    EXPECT_TRUE(passes(golden, Cut::kChunksOf7)) << arch;
    const MutationScope scope(Mutation::kChunkBorderOffByOne);
    EXPECT_FALSE(passes(golden, Cut::kChunksOf7)) << arch;
  }
}

}  // namespace
}  // namespace strata::test
