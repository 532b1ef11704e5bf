// Metadata that lies: every key that becomes a size, a divisor or a scale, changed in copies of the golden models. Ids
// in names: Gguf29 (metadata lies about shapes), and faults that readers of these files have had: G10 (a count of 0 as
// divisor), G11 (more layers than a table holds), G25 (no layers).
#include <cstdio>
#include <fstream>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/hparams_cases.h"
#include "model/refusal.h"

namespace strata::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasurable = false;
#elif defined(__has_feature)
constexpr bool kMeasurable = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMeasurable = true;
#endif

std::string test_name(std::string arch) {
  for (char& c : arch) {
    if (c == '-') c = '_';
  }
  return arch;
}

class Metadata : public testing::TestWithParam<const char*> {
 protected:
  std::string arch() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(All, Metadata, testing::ValuesIn(kArchs),
                         [](const auto& row) { return test_name(row.param); });

class Lies : public Metadata {};
INSTANTIATE_TEST_SUITE_P(All, Lies, testing::ValuesIn(kGoldenArchs),
                         [](const auto& row) { return test_name(row.param); });

TEST_P(Lies, AnUnchangedCopyIsAccepted) {
  const Status status = open_copy(ModelCopy(arch()));
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST_P(Lies, Gguf29G10G11G25LiesAreRefusedByKey) {
  const ModelCopy original(arch());
  for (const MetadataCase& c : metadata_cases(arch())) {
    SCOPED_TRACE(c.name);
    ModelCopy copy = original;
    c.change(copy);
    expect_refused(open_copy(copy), {c.key});
  }
}

// What a tensor's shape contradicts is refused by the tensor.
TEST_P(Metadata, Gguf29SizesThatTheTensorsContradictAreRefused) {
  // The first layer of attention.
  const std::string attention = arch() == "qwen3next" || arch() == "qwen4exp" ? "blk.3." : "blk.0.";
  struct Row {
    const char* key;
    uint32_t value;
    std::string tensor;
  };
  const Row rows[] = {
      {"embedding_length", 128, "blk.0."},
      {"expert_count", 16, "blk.0.ffn_gate_exps.weight"},
      {"expert_count", 4, "blk.0.ffn_gate_exps.weight"},
      {"expert_feed_forward_length", 48, "blk.0.ffn_gate_exps.weight"},
      {"block_count", 16, arch() == "qwen4exp" ? "attention.compress_ratios" : "blk."},
      {"attention.head_count", 8, attention + "attn_q.weight"},
      {"attention.head_count_kv", 4, attention + "attn_k.weight"},
      {"attention.key_length", 1024, attention + "attn_q.weight"},
      {"attention.value_length", 16, attention + "attn_v.weight"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.key);
    ModelCopy copy(arch());
    copy.set_u32(row.key, row.value);
    expect_refused(open_copy(copy), {row.tensor});
  }
}

TEST(OneMetadata, Gguf29DeltaNetSizesThatTheTensorsContradictAreRefused) {
  ModelCopy kernel("qwen3next");
  kernel.set_u32("ssm.conv_kernel", 64);
  expect_refused(open_copy(kernel), {"blk.0.ssm_conv1d.weight"});
  ModelCopy heads("qwen3next");  // consistent among themselves
  heads.set_u32("ssm.time_step_rank", 1024);
  heads.set_u32("ssm.state_size", 1024);
  heads.set_u32("ssm.inner_size", 1024 * 1024);
  expect_refused(open_copy(heads), {"blk.0.attn_qkv.weight"});
}

// G25: the smallest model without layers.
TEST(OneMetadata, G25AFileWithoutLayersIsRefused) {
  ModelCopy copy("qwen3moe");
  copy.set_u32("block_count", 0);
  std::erase_if(copy.tensors(), [](const ModelCopy::Tensor& t) { return t.name.starts_with("blk."); });
  expect_refused(open_copy(copy), {"qwen3moe.block_count", "is 0"});
}

// Converters differ in the integer type of a key.
TEST_P(Metadata, IntegersOfAnyWidthAreAccepted) {
  for (const char* key : {"block_count", "embedding_length", "context_length", "attention.head_count",
                          "attention.head_count_kv", "attention.key_length", "expert_count", "expert_used_count",
                          "expert_feed_forward_length"}) {
    SCOPED_TRACE(key);
    const uint32_t value = ModelCopy(arch()).get_u32(key);
    const auto accepts = [&](uint32_t type, const ByteString& bytes) {
      ModelCopy copy(arch());
      copy.set(key, type, bytes);
      const Status status = open_copy(copy);
      EXPECT_TRUE(status.ok()) << "type " << type << ": " << status.error().message;
    };
    accepts(10, ByteString().u64(value));
    accepts(11, ByteString().number(int64_t{value}));
    accepts(5, ByteString().number(static_cast<int32_t>(value)));
    accepts(2, ByteString().u16(static_cast<uint16_t>(value)));
  }
}

// gguf 29, in 64 bits: nothing is cut off on the way to a check.
TEST_P(Metadata, Gguf29WideIntegersAreNotCutOff) {
  for (const char* key : {"block_count", "embedding_length", "context_length", "attention.head_count",
                          "attention.head_count_kv", "attention.key_length", "expert_count", "expert_used_count",
                          "expert_feed_forward_length"}) {
    SCOPED_TRACE(key);
    const uint64_t value = ModelCopy(arch()).get_u32(key);
    for (const uint64_t wide : {value + (uint64_t{1} << 32), value + (uint64_t{1} << 63), ~uint64_t{0}}) {
      ModelCopy copy(arch());
      copy.set(key, 10, ByteString().u64(wide));
      expect_refused(open_copy(copy), {copy.full(key)});
    }
  }
}

TEST_P(Metadata, EqualValuesPerLayerAreAccepted) {
  ModelCopy copy(arch());
  const size_t layers = copy.get_u32("block_count");
  for (const char* key : {"attention.head_count", "attention.head_count_kv", "feed_forward_length",
                          "expert_feed_forward_length"}) {
    if (!copy.has_key(key)) continue;
    copy.set_i32s(key, std::vector<int32_t>(layers, static_cast<int32_t>(ModelCopy(arch()).get_u32(key))));
  }
  const Status status = open_copy(copy);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST_P(Metadata, DefaultsOfAbsentKeysAreAccepted) {
  for (const char* key : {"rope.freq_base", "rope.scaling.factor", "rope.scaling.type", "feed_forward_length",
                          "rope.scaling.original_context_length"}) {
    SCOPED_TRACE(key);
    ModelCopy copy(arch());
    copy.remove(key);
    const Status status = open_copy(copy);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
}

TEST(OneMetadata, AnUnknownArchitectureIsToldWhichAreKnown) {
  ModelCopy copy("qwen3moe");
  copy.set_string("general.architecture", "hal\x1b" "9000");
  const Status status = open_copy(copy);
  std::vector<std::string> pieces = {"'hal?9000'"};
  for (const model::ArchInfo* arch : model::all_architectures()) pieces.push_back(arch->name);
  for (const char* arch : kGoldenArchs) EXPECT_THAT(pieces, testing::Contains(arch));
  expect_refused(status, pieces);
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
}

TEST(OneMetadata, TheArchitectureHasToBeText) {
  ModelCopy absent("qwen3moe");
  absent.remove("general.architecture");
  expect_refused(open_copy(absent), {"general.architecture"});
  ModelCopy number("qwen3moe");
  number.set_u32("general.architecture", 3);
  expect_refused(open_copy(number), {"general.architecture"});
}

TEST(OneMetadata, KeysOfAnotherArchitectureDoNotCount) {
  ModelCopy copy("qwen3moe");
  copy.set_string("general.architecture", "gpt-oss");
  expect_refused(open_copy(copy), {"gpt-oss.block_count"});
}

// Bytes of address space that this process has.
uint64_t address_space_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Exit code of a child: 0 when all lies were refused within 100 MB more than it had at the start. An allocation beyond
// that fails, which the child does not survive.
int refuse_all_within_limit(const std::string& arch) {
  const ModelCopy original(arch);
  const rlimit limit{address_space_bytes() + 100'000'000, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  for (const MetadataCase& c : metadata_cases(arch)) {
    ModelCopy copy = original;
    c.change(copy);
    const Status status = open_copy(copy);
    if (status.ok() || status.error().code == ErrorCode::kNoMemory) {
      std::fprintf(stderr, "%s: %s\n", c.name.c_str(), status.ok() ? "accepted" : status.error().message.c_str());
      return 1;
    }
  }
  return 0;
}

TEST_P(Lies, Gguf29RefusalsTakeLessThan100MB) {
  if (!kMeasurable) GTEST_SKIP() << "memory is not measured with sanitizers";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(refuse_all_within_limit(arch()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace strata::test
