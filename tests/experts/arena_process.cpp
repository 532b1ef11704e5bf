#include "experts/arena_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strata::test {
namespace {

constexpr int kPatienceMs = 100'000;

}  // namespace

ArenaProcess::ArenaProcess(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), STRATA_ARENA_ENGINE);
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ < 0) std::abort();
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

ArenaProcess::~ArenaProcess() {
  if (!ended_) {
    send(SIGKILL);
    finish();
  }
  ::close(out_);
}

bool ArenaProcess::read_line() {
  for (;;) {
    if (const size_t end = rest_.find('\n'); end != std::string::npos) {
      lines_.push_back(rest_.substr(0, end));
      rest_.erase(0, end + 1);
      return true;
    }
    pollfd fd{out_, POLLIN, 0};
    if (::poll(&fd, 1, kPatienceMs) <= 0) return false;
    char buffer[4096];
    const ssize_t n = ::read(out_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    rest_.append(buffer, static_cast<size_t>(n));
  }
}

std::string ArenaProcess::line(const std::string& begin) {
  while (read_line()) {
    if (lines_.back().starts_with(begin)) return lines_.back();
    if (lines_.back().starts_with("failed")) break;
  }
  ADD_FAILURE() << "no line '" << begin << "' from process " << pid_ << "; the last one: "
                << (lines_.empty() ? "(none)" : lines_.back());
  return "";
}

bool ArenaProcess::said(const std::string& begin) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) { return line.starts_with(begin); });
}

bool ArenaProcess::stopped() {
  int status = 0;
  while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) continue;
  if (WIFSTOPPED(status)) return true;
  ended_ = true;
  return false;
}

void ArenaProcess::send(int signal) { ::kill(pid_, signal); }

int ArenaProcess::finish() {
  if (in_ >= 0) ::close(in_);
  in_ = -1;
  while (read_line()) continue;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace strata::test
