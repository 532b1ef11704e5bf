// The fuzz target on its committed corpus, without the fuzzer: inputs that once took a new path stay read or refused.
#include <filesystem>

#include <gtest/gtest.h>

#include "support/golden.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace strata::test {
namespace {

TEST(CorpusTest, EveryInputIsReadOrRefused) {
  size_t n_inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/tests/fuzz/corpus/gguf")) {
    SCOPED_TRACE(entry.path().filename());
    const std::vector<uint8_t> input = read_bytes(entry.path());
    EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
    ++n_inputs;
  }
  EXPECT_GE(n_inputs, 13u);  // the seeds
}

}  // namespace
}  // namespace strata::test
