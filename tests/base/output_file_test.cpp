// Goal: a result appears under its name complete or not at all; whatever happens on the way, the folder holds what it
// held before. What can't be replaced is written to.
#include "base/output_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/golden.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string get(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Status append(OutputFile& out, std::string_view text) { return out.append(std::as_bytes(std::span(text))); }

Status write(const std::string& path, std::string_view text) {
  OutputFile out(path);
  RETURN_IF_ERROR(out.open());
  RETURN_IF_ERROR(append(out, text));
  return out.commit();
}

mode_t mode_of(const std::string& path) { return static_cast<mode_t>(fs::status(path).permissions()); }

class OutputFileTest : public ::testing::Test {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(dir_.path())) all.insert(entry.path().filename().string());
    return all;
  }
  // The one file that is not called `out`.
  std::string temporary() const {
    std::set<std::string> all = names();
    all.erase("out");
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : dir_.file(*all.begin());
  }

  test::TempDir dir_;
  const std::string out_ = dir_.file("out");
};

TEST_F(OutputFileTest, AppearsWhenItIsComplete) {
  OutputFile out(out_);
  ASSERT_TRUE(out.open().ok());
  ASSERT_TRUE(append(out, "one ").ok());
  ASSERT_TRUE(out.append_zeros(2).ok());
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_EQ(out.size(), 6u);
  ASSERT_TRUE(out.commit().ok());
  EXPECT_EQ(get(out_), std::string("one \0\0", 6));
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(OutputFileTest, BlocksLargerThanItsBufferKeepTheirOrder) {
  std::string text(5 << 20, '\0');
  for (size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>(i * 31 >> 7);
  OutputFile out(out_);
  ASSERT_TRUE(out.open().ok());
  const std::string_view all = text;
  ASSERT_TRUE(append(out, all.substr(0, 7)).ok());
  ASSERT_TRUE(append(out, all.substr(7, 3 << 20)).ok());
  ASSERT_TRUE(append(out, all.substr(7 + (3 << 20))).ok());
  ASSERT_TRUE(out.commit().ok());
  EXPECT_EQ(get(out_), text);
}

TEST_F(OutputFileTest, WithoutCommitNothingHasHappened) {
  put(out_, "old");
  {
    OutputFile out(out_);
    ASSERT_TRUE(out.open().ok());
    ASSERT_TRUE(append(out, "new").ok());
    EXPECT_EQ(names().size(), 2u);
  }
  EXPECT_EQ(get(out_), "old");
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(OutputFileTest, NoNameCanBeForetold) {
  OutputFile first(out_), second(out_);
  ASSERT_TRUE(first.open().ok());
  const std::string name = temporary();
  ASSERT_TRUE(second.open().ok());
  EXPECT_EQ(names().size(), 2u) << "two writers have a file each";
  // What others have put under the names of before stays.
  put(dir_.file("out.tmp"), "of somebody else");
  ASSERT_TRUE(append(second, "second").ok());
  ASSERT_TRUE(second.commit().ok());
  EXPECT_TRUE(fs::exists(name));
  EXPECT_EQ(get(dir_.file("out.tmp")), "of somebody else");
  EXPECT_EQ(get(out_), "second");
}

TEST_F(OutputFileTest, KeepsThePermissionsOfWhatItReplaces) {
  const mode_t mask = ::umask(027);
  ASSERT_TRUE(write(out_, "x").ok());
  EXPECT_EQ(mode_of(out_), 0640u);
  for (const mode_t mode : {0600u, 0664u}) {
    ASSERT_EQ(::chmod(out_.c_str(), mode), 0);
    ASSERT_TRUE(write(out_, "y").ok());
    EXPECT_EQ(mode_of(out_), mode);
  }
  // Not readable by others at any moment.
  ASSERT_EQ(::chmod(out_.c_str(), 0600), 0);
  OutputFile out(out_);
  ASSERT_TRUE(out.open().ok());
  EXPECT_EQ(mode_of(temporary()), 0600u);
  ::umask(mask);
}

TEST_F(OutputFileTest, ALinkStaysALink) {
  fs::create_directory(dir_.file("folder"));
  put(dir_.file("folder/real"), "old");
  fs::create_symlink("folder/real", out_);
  ASSERT_TRUE(write(out_, "new").ok());
  EXPECT_TRUE(fs::is_symlink(out_));
  EXPECT_EQ(get(dir_.file("folder/real")), "new");
  EXPECT_EQ(names(), (std::set<std::string>{"folder", "out"}));
}

TEST_F(OutputFileTest, ANameCanBeAsLongAsTheSystemAllows) {
  const std::string longest = dir_.file(std::string(255, 'n'));
  ASSERT_TRUE(write(longest, "x").ok());
  EXPECT_EQ(get(longest), "x");
  const Status too_long = write(dir_.file(std::string(256, 'n')), "x");
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error().code, ErrorCode::kIo);
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsNamed) {
  const struct { std::string path; ErrorCode code; const char* text; } cases[] = {
      {dir_.path(), ErrorCode::kBadInput, "exists and is not a file"},
      {dir_.file("none/out"), ErrorCode::kIo, "cannot create"},
      {"", ErrorCode::kBadInput, "no path"},
      {out_ + std::string("\0x", 2), ErrorCode::kBadInput, "no path"},
      {dir_.file(std::string(5000, '/') + "out"), ErrorCode::kIo, "cannot create"},
      {"/dev/full", ErrorCode::kIo, "cannot write /dev/full: No space left"},
  };
  for (const auto& c : cases) {
    const Status status = write(c.path, "x");
    ASSERT_FALSE(status.ok()) << c.path;
    EXPECT_EQ(status.error().code, c.code) << status.error().message;
    EXPECT_NE(status.error().message.find(c.text), std::string::npos) << status.error().message;
  }
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(OutputFileTest, AFileThatMayNotGrowIsRemoved) {
  put(out_, "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write(out_, std::string(1001, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find("File too large"), std::string::npos) << status.error().message;
  EXPECT_EQ(get(out_), "old");
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(OutputFileTest, APipeIsWrittenToAndStays) {
  ASSERT_EQ(::mkfifo(out_.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = get(out_); });
  EXPECT_TRUE(write(out_, "through the pipe").ok());
  reader.join();
  EXPECT_EQ(read, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(out_));
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

// In a child, whose standard output is this file.
TEST_F(OutputFileTest, StandardOutputIsShared) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int fd = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const bool good = ::dup2(fd, STDOUT_FILENO) == STDOUT_FILENO && ::write(STDOUT_FILENO, "a", 1) == 1 &&
                      is_standard_output("/dev/stdout") && write("/dev/stdout", "b").ok() &&
                      ::write(STDOUT_FILENO, "c", 1) == 1;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(get(out_), "abc");
  EXPECT_FALSE(is_standard_output(out_));
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(OutputFileTest, ASignalLeavesNothingBehind) {
  put(out_, "old");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      handle_ending_signals();
      OutputFile done(dir_.file("done")), out(out_), other(dir_.file("other"));
      const bool good = done.open().ok() && done.commit().ok() && out.open().ok() && append(out, "half").ok() &&
                        other.open().ok() && ::write(ready[1], "r", 1) == 1;
      while (good) ::pause();
      ::_exit(1);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(names().size(), 4u) << "the old one, a complete one, and two that are being written";
    ::kill(child, signal);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(names(), (std::set<std::string>{"done", "out"}));
    EXPECT_EQ(get(out_), "old");
    for (const int fd : ready) ::close(fd);
  }
}

// To the first process of a container no signal does what it does by default.
TEST_F(OutputFileTest, ASignalEndsTheFirstProcessOfAContainer) {
  const int own_user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWPID | own_user | SIGCHLD, 0, 0, 0, 0));
  if (child < 0) GTEST_SKIP() << "no namespaces here";
  if (child == 0) {
    handle_ending_signals();
    OutputFile out(out_);
    if (out.open().ok()) std::raise(SIGTERM);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM) << status;
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(OutputFileTest, AnIgnoredSignalStaysIgnored) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGHUP, SIG_IGN);
    handle_ending_signals();
    std::raise(SIGHUP);
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST_F(OutputFileTest, ManyAtOnceAreRefusedAndRoomComesBack) {
  std::vector<UnfinishedFile> held;
  for (;;) {
    Result<UnfinishedFile> one = UnfinishedFile::create(dir_.file("x"));
    if (!one.ok()) {
      EXPECT_EQ(one.error().code, ErrorCode::kNoMemory);
      break;
    }
    held.push_back(std::move(one).value());
    ASSERT_LT(held.size(), 1000u);
  }
  EXPECT_FALSE(write(out_, "x").ok());
  held.pop_back();
  EXPECT_TRUE(write(out_, "x").ok());
  EXPECT_TRUE(write(out_, "y").ok());
}

TEST_F(OutputFileTest, KnowsWhatItWouldReplace) {
  const std::string in = dir_.file("in");
  put(in, "x");
  put(out_, "x");
  fs::create_hard_link(in, dir_.file("hard"));
  fs::create_symlink(in, dir_.file("soft"));
  for (const std::string& same : {in, dir_.file("hard"), dir_.file("soft"), dir_.path() + "/./in"}) {
    EXPECT_TRUE(would_replace(same, in)) << same;
  }
  EXPECT_FALSE(would_replace(out_, in));
  EXPECT_FALSE(would_replace(dir_.file("none"), in));
  EXPECT_FALSE(would_replace(in, dir_.file("none")));
  EXPECT_FALSE(would_replace("/dev/null", "/dev/null")) << "devices are not destroyed";
}

}  // namespace
}  // namespace strata
