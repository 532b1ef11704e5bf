// An engine that stands still says so: in a step, and while it loads.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/asking_files.h"
#include "base/bytes.h"
#include "engine/engine.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using testing::ContainsRegex;
using testing::HasSubstr;

// stderr goes to a file that can be read meanwhile.
class StderrFile {
 public:
  StderrFile() : saved_(::dup(2)), file_(std::tmpfile()) { ::dup2(::fileno(file_), 2); }
  ~StderrFile() {
    ::dup2(saved_, 2);
    ::close(saved_);
    std::fclose(file_);
  }
  StderrFile(const StderrFile&) = delete;
  StderrFile& operator=(const StderrFile&) = delete;

  std::string text() const {
    std::string text(64 * kKiB, '\0');
    const ssize_t n = ::pread(::fileno(file_), text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  // Returns once it has been written.
  void await(const std::string& piece) const {
    while (text().find(piece) == std::string::npos) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  int saved_;
  std::FILE* file_;
};

EngineConfig small_config(int64_t stall_notice_s) {
  EngineConfig config;
  config.context = 64;
  config.threads = 2;
  config.chunk = 16;
  config.ram_bytes = kGiB;
  config.stall_notice_s = stall_notice_s;
  return config;
}

const char* const kNotice = "warning: no progress for 1 s while ";

Status step(Engine& engine) {
  auto sequence = engine.make_sequence();
  if (!sequence.ok()) return sequence.error();
  const int32_t ids[] = {1, 2, 3};
  const model::BatchRows batch[] = {{&*sequence, ids}};
  return engine.step(batch);
}

TEST(EngineStall, AStepThatStandsStillSaysWhoWaits) {
  const auto model = gguf::Model::open(golden_path("arch/qwen3moe/model-bf16.gguf"), real_file_system());
  ASSERT_TRUE(model.ok());
  Stats stats;
  const auto engine = Engine::open(**model, small_config(1), stats);
  ASSERT_TRUE(engine.ok());
  const StderrFile errors;
  ASSERT_TRUE(step(**engine).ok());
  bool blocks = true;
  (*engine)->set_interrupt([&] {
    if (std::exchange(blocks, false)) errors.await(kNotice);
    return false;
  });
  ASSERT_TRUE(step(**engine).ok());
  EXPECT_THAT(errors.text(), HasSubstr(std::string(kNotice) + "computing steps; "));
  EXPECT_THAT(errors.text(), ContainsRegex("; computing thread strata-1: idle"));
  EXPECT_THAT(errors.text(), ContainsRegex("; thread [0-9]+: runs, or waits for pages of a mapped file"));
}

TEST(EngineStall, ALoadThatStandsStillSaysSo) {
  const StderrFile errors;
  std::atomic<bool> loads{false};
  AskingFiles files(real_file_system(), [&](uint64_t, size_t) {
    if (loads.exchange(false)) errors.await(kNotice);
    return Status();
  });
  const auto model = gguf::Model::open(golden_path("arch/qwen3moe/model-bf16.gguf"), files);
  ASSERT_TRUE(model.ok());
  loads = true;
  Stats stats;
  const auto engine = Engine::open(**model, small_config(1), stats);
  ASSERT_TRUE(engine.ok());
  EXPECT_FALSE(loads);
  EXPECT_THAT(errors.text(), HasSubstr(std::string(kNotice) + "loading the model; "));
}

}  // namespace
}  // namespace strata::test
