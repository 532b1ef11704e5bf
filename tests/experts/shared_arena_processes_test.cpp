// Goal: engines in processes of their own share one arena, whatever happens to one of them. Method: child processes
// that stop, die or fail where they are told to; nothing depends on how long anything takes.
#include <csignal>

#include <fcntl.h>

#include "experts/shared_arena/header.h"
#include "experts/shared_arena_rig.h"

namespace strata::test {
namespace {

using experts::shared_arena_bytes;
using testing::HasSubstr;

class ArenaProcesses : public testing::TestWithParam<std::string> {
 protected:
  ArenaProcesses() : folder_(GetParam()) {}

  std::vector<std::string> arguments(const std::string& model, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {model, ArenaModels::path(model), folder_.arena()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<std::string> doing(const std::string& action, const std::string& where) {
    return {"600", action, where};
  }
  // An engine comes, gets the model's own bytes, and goes. Whether it had to load.
  bool runs_well(const std::string& model = "a") {
    ArenaProcess engine(arguments(model));
    const std::string line = engine.line("attached");
    EXPECT_TRUE(line.ends_with(format(" {:016x}", file_checksum(model)))) << line;
    EXPECT_EQ(engine.finish(), 0);
    const bool loaded = line.starts_with("attached 1 ");
    EXPECT_EQ(line.starts_with("attached 0 0 "), !loaded) << "who attaches reads nothing: " << line;
    return loaded;
  }
  void expect_refused(const std::string& model, std::initializer_list<const char*> pieces) {
    ArenaProcess engine(arguments(model));
    EXPECT_EQ(engine.finish(), 2);
    const std::string& line = engine.lines().back();
    for (const char* piece : pieces) EXPECT_THAT(line, HasSubstr(piece));
    EXPECT_THAT(line, HasSubstr(folder_.arena()));
  }
  uint64_t arena_bytes(const std::string& model = "a") { return shared_arena_bytes(ArenaModels::get(model).layout); }

  ArenaFolder folder_;
};

TEST_P(ArenaProcesses, TheSecondWaitsAndReadsNothing) {
  ArenaProcess first(arguments("a", doing("stop", "publish")));
  ASSERT_TRUE(first.stopped());
  ArenaProcess second(arguments("a"));
  EXPECT_EQ(second.line("waiting"), format("waiting {}", first.pid()));
  EXPECT_FALSE(second.said("attached"));
  first.send(SIGCONT);
  const std::string loaded = first.line("attached"), shared = second.line("attached");
  EXPECT_TRUE(loaded.starts_with("attached 1 ")) << loaded;
  EXPECT_EQ(shared, format("attached 0 0 {:016x}", file_checksum("a")));
  EXPECT_EQ(first.finish(), 0);
  EXPECT_EQ(second.finish(), 0);
  EXPECT_EQ(file_state(folder_.arena())->bytes, arena_bytes());
}

TEST_P(ArenaProcesses, ManyAtOnceLoadOnce) {
  std::vector<std::unique_ptr<ArenaProcess>> engines;
  for (int i = 0; i < 6; i++) engines.push_back(std::make_unique<ArenaProcess>(arguments("a")));
  int n_loaded = 0;
  for (auto& engine : engines) n_loaded += engine->line("attached").starts_with("attached 1 ");
  EXPECT_EQ(n_loaded, 1);
  for (auto& engine : engines) EXPECT_EQ(engine->finish(), 0);
}

TEST_P(ArenaProcesses, ARestartAttaches) {
  EXPECT_TRUE(runs_well());
  const FileState before = *file_state(folder_.arena());
  EXPECT_FALSE(runs_well());
  EXPECT_EQ(file_state(folder_.arena())->inode, before.inode);
}

TEST_P(ArenaProcesses, OtherPacksAndSizesAreRefusedWhileMappedAndReplacedAfterwards) {
  struct Other {
    const char* model;
    const char* reason;
  };
  for (const Other& other : {Other{"b", "holds another model's experts, and"},
                             Other{"c", "holds another model's experts, and"}, Other{"large", "of another size"}}) {
    SCOPED_TRACE(other.model);
    std::filesystem::remove(folder_.arena());
    const int old = [&] {
      ArenaProcess engine(arguments("a"));
      EXPECT_NE(engine.line("attached"), "");
      const FileState before = *file_state(folder_.arena());
      expect_refused(other.model, {other.reason, "an engine is using it", "name another file"});
      EXPECT_EQ(file_state(folder_.arena())->inode, before.inode);
      const int fd = ::open(folder_.arena().c_str(), O_RDONLY | O_CLOEXEC);
      EXPECT_EQ(engine.finish(), 0);
      return fd;
    }();
    // Somebody who takes no lock still has the old file open: it stays as it is.
    const FileState before = *file_state(folder_.arena());
    EXPECT_TRUE(runs_well(other.model));
    EXPECT_NE(file_state(folder_.arena())->inode, before.inode);
    struct stat info {};
    ASSERT_EQ(::fstat(old, &info), 0);
    EXPECT_EQ(static_cast<uint64_t>(info.st_size), before.bytes);
    EXPECT_EQ(info.st_nlink, 0u);
    ::close(old);
  }
  EXPECT_EQ(folder_.n_files(), 1u);
}

// A header as an older version wrote it: the number behind the magic says so.
TEST_P(ArenaProcesses, AnotherFormatIsRefusedWhileMappedAndReplacedAfterwards) {
  ArenaProcess engine(arguments("a"));
  ASSERT_NE(engine.line("attached"), "");
  change_silently(folder_.arena(), 8, [](std::byte) { return std::byte{1}; });
  expect_refused("a", {"another format", "an engine is using it"});
  EXPECT_EQ(engine.finish(), 0);
  EXPECT_TRUE(runs_well());
  EXPECT_FALSE(runs_well());
}

// What must have happened before, so that an engine comes through all steps there are.
enum class Before { kNothing, kOtherPack, kPublished };
struct Death {
  Before before;
  std::vector<const char*> places;
};
const Death kDeaths[] = {
    {Before::kNothing, {"open", "create", "lock-fill", "compare", "inspect", "claim-to-load", "load", "1", "3",
                        "publish", "keep", "release", "attached"}},
    {Before::kOtherPack, {"claim-to-remove", "remove", "create", "load", "2", "publish", "keep"}},
    {Before::kPublished, {"open", "lock-fill", "compare", "inspect", "share", "compare-shared", "release", "attached"}},
};

TEST_P(ArenaProcesses, WhereverAnEngineDiesTheNextOneEndsWell) {
  for (const Death& death : kDeaths) {
    for (const char* place : death.places) {
      SCOPED_TRACE(format("{} after {}", place, static_cast<int>(death.before)));
      std::filesystem::remove(folder_.arena());
      if (death.before != Before::kNothing) runs_well(death.before == Before::kOtherPack ? "b" : "a");
      ArenaProcess engine(arguments("a", doing("kill", place)));
      EXPECT_EQ(engine.finish(), 128 + SIGKILL);
      runs_well();
      EXPECT_FALSE(runs_well()) << "what it left is complete";
      EXPECT_EQ(folder_.n_files(), 1u);
    }
  }
}

TEST_P(ArenaProcesses, AWaiterThatDiesHoldsNobodyUp) {
  ArenaProcess loader(arguments("a", doing("stop", "2")));
  ASSERT_TRUE(loader.stopped());
  ArenaProcess waiter(arguments("a", doing("kill", "wait")));
  EXPECT_EQ(waiter.finish(), 128 + SIGKILL);
  ArenaProcess other(arguments("a"));
  EXPECT_NE(other.line("waiting"), "");
  loader.send(SIGCONT);
  EXPECT_TRUE(loader.line("attached").starts_with("attached 1 "));
  EXPECT_TRUE(other.line("attached").starts_with("attached 0 0 "));
}

TEST_P(ArenaProcesses, AWaiterLoadsWhatTheLoaderLeaves) {
  ArenaProcess loader(arguments("a", doing("stop", "3")));
  ASSERT_TRUE(loader.stopped());
  ArenaProcess waiter(arguments("a"));
  EXPECT_EQ(waiter.line("waiting"), format("waiting {}", loader.pid()));
  loader.send(SIGKILL);
  EXPECT_TRUE(waiter.line("attached").starts_with("attached 1 "));
}

TEST_P(ArenaProcesses, CrashesLeaveOneFileOfOneArena) {
  for (int round = 0; round < 10; round++) {
    ArenaProcess engine(arguments("a", doing("kill", round % 2 == 0 ? "publish" : "2")));
    EXPECT_EQ(engine.finish(), 128 + SIGKILL);
    ASSERT_EQ(folder_.n_files(), 1u);
    EXPECT_LE(file_state(folder_.arena())->allocated, arena_bytes());
  }
  EXPECT_TRUE(runs_well());
  EXPECT_EQ(file_state(folder_.arena())->allocated, arena_bytes());
}

TEST_P(ArenaProcesses, ALoaderThatStandsStillIsNamed) {
  ArenaProcess loader(arguments("a", doing("stop", "publish")));
  ASSERT_TRUE(loader.stopped());
  ArenaProcess waiter(arguments("a", {"1"}));
  EXPECT_EQ(waiter.finish(), 1);
  EXPECT_THAT(waiter.lines().back(), HasSubstr(format("engine {} is loading it and has made no progress for 1 s",
                                                      loader.pid())));
  EXPECT_THAT(waiter.lines().back(), HasSubstr("--shared-arena-timeout-s"));
  loader.send(SIGKILL);
  loader.finish();
  EXPECT_TRUE(runs_well());
}

TEST_P(ArenaProcesses, ALoadThatFailsFreesTheMemory) {
  ArenaProcess engine(arguments("a", doing("fail", "3")));
  EXPECT_EQ(engine.finish(), 1);
  EXPECT_THAT(engine.lines().back(), HasSubstr("as planned"));
  EXPECT_EQ(folder_.n_files(), 0u);
  EXPECT_TRUE(runs_well());
}

// A person who gives up: Ctrl-C.
TEST_P(ArenaProcesses, ALoaderThatIsInterruptedFreesTheMemory) {
  for (const char* place : {"2", "publish"}) {
    ArenaProcess loader(arguments("a", doing("stop", place)));
    ASSERT_TRUE(loader.stopped());
    ArenaProcess waiter(arguments("a", doing("stop", "wait")));
    ASSERT_TRUE(waiter.stopped());
    for (ArenaProcess* engine : {&waiter, &loader}) {
      engine->send(SIGINT);
      engine->send(SIGCONT);
      EXPECT_EQ(engine->finish(), 128 + SIGINT);
    }
    EXPECT_EQ(folder_.n_files(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ArenaProcesses, testing::ValuesIn(arena_folders()), [](const auto& row) {
  return row.index == 0 ? "tmpfs" : "hugetlbfs";
});

}  // namespace
}  // namespace strata::test
