// Goal: two engines on one arena take the memory of one copy and twice the rest, while both compute the right tokens.
// Method: engines as processes, whose proportional share of memory the system tells (smaps_rollup in proc(5)).
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/models.h"
#include "engine/engine.h"

namespace strata::test {
namespace {

// tests/engine/sharing_engine.cpp as a child.
class Sharing {
 public:
  explicit Sharing(const std::string& arena) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    const std::string model = demo_model();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execl(STRATA_SHARING_ENGINE, STRATA_SHARING_ENGINE, model.c_str(), arena.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = ::fdopen(out[0], "r");
  }
  ~Sharing() {
    ::close(in_);
    std::fclose(out_);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;

  std::string line() {
    char text[4096];
    return std::fgets(text, sizeof text, out_) == nullptr ? "" : text;
  }
  void go_on() {
    if (::write(in_, "\n", 1) != 1) ADD_FAILURE() << "the engine is gone";
  }
  // Bytes that are its own, and its share of those that several processes map.
  uint64_t share() const {
    std::ifstream rollup("/proc/" + std::to_string(pid_) + "/smaps_rollup");
    for (std::string line; std::getline(rollup, line);) {
      if (line.starts_with("Pss:")) return std::stoull(line.substr(4)) * kKiB;
    }
    return 0;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  FILE* out_ = nullptr;
};

struct Alone {
  uint64_t bytes = 0;
  std::string tokens;
};
Alone run_alone(const std::string& arena) {
  Sharing engine(arena);
  EXPECT_EQ(engine.line(), "ready\n");
  engine.go_on();
  Alone alone;
  alone.tokens = engine.line();
  alone.bytes = engine.share();
  return alone;
}

struct Pair {
  uint64_t bytes = 0;
  std::string tokens[2];
};

// Two engines that live and compute at the same time.
Pair run_pair(const std::string& arena) {
  Sharing first(arena), second(arena);
  Pair pair;
  EXPECT_EQ(first.line(), "ready\n");
  EXPECT_EQ(second.line(), "ready\n");
  first.go_on();
  second.go_on();
  pair.tokens[0] = first.line();
  pair.tokens[1] = second.line();
  pair.bytes = first.share() + second.share();
  return pair;
}

TEST(SharedMemory, TwoEnginesTakeOneCopyAndTwiceTheRest) {
  const auto model = gguf::Model::open(demo_model(), real_file_system()).value();
  const model::ArchInfo* info = model::find_architecture(*model).value();
  const model::HParams hp = info->read(model::Keys(*model, info->name)).value();
  const uint64_t copy =
      experts::ExpertLayout::from_model(*model, hp.n_layers, hp.dim, hp.expert_ffn, hp.route.n_experts)
          .value()
          .total_bytes();
  const TempDir folder("/dev/shm");
  const std::string arena = folder.file("arena");
  const Alone unshared = run_alone("-"), alone = run_alone(arena);
  ASSERT_TRUE(unshared.tokens.starts_with("tokens ")) << unshared.tokens;
  EXPECT_EQ(alone.tokens, unshared.tokens);
  ASSERT_GT(alone.bytes, copy);
  // A file costs no more than memory of one's own, but for what the loader has used.
  EXPECT_LT(alone.bytes, unshared.bytes + 4 * kMiB);

  std::filesystem::remove(arena);
  const Pair shared = run_pair(arena);
  const uint64_t rest = alone.bytes - copy;
  EXPECT_LE(shared.bytes, copy + 2 * rest);
  for (const std::string& found : shared.tokens) EXPECT_EQ(found, unshared.tokens);

  // What two take that share nothing: the test can fail.
  const Pair apart = run_pair("-");
  EXPECT_GT(apart.bytes, shared.bytes + copy / 2);
  RecordProperty("copy", std::to_string(copy));
  RecordProperty("rest", std::to_string(rest));
  RecordProperty("shared", std::to_string(shared.bytes));
  RecordProperty("apart", std::to_string(apart.bytes));
}

}  // namespace
}  // namespace strata::test
