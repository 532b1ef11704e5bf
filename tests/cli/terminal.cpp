#include "cli/terminal.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace strata::test {
namespace {

constexpr int kPatienceMs = 60'000;
constexpr unsigned short kRows = 24;
constexpr unsigned short kColumns = 80;

std::vector<std::string> child_environment() {
  std::vector<std::string> all = {"STRATA_RAM_HEADROOM_GIB=0", "TERM=xterm"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with("STRATA_") && !text.starts_with("TERM=") && !text.starts_with("NO_COLOR=")) {
      all.emplace_back(text);
    }
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Terminal::Terminal(const std::vector<std::string>& args) {
  std::vector<std::string> all = args;
  all.insert(all.begin(), STRATA_PROGRAM);
  std::vector<std::string> environment = child_environment();
  const std::vector<char*> arg_pointers = pointers(all);
  const std::vector<char*> environment_pointers = pointers(environment);
  const winsize size{.ws_row = kRows, .ws_col = kColumns, .ws_xpixel = 0, .ws_ypixel = 0};
  child_ = ::forkpty(&fd_, nullptr, nullptr, &size);
  if (child_ < 0) std::abort();
  if (child_ == 0) {  // nothing here allocates
    ::execve(arg_pointers[0], arg_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
}

Terminal::~Terminal() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(fd_);
}

void Terminal::type(const std::string& keys) {
  ASSERT_EQ(::write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

void Terminal::say(const std::string& line) {
  expect_prompt();
  type(line + "\r");
}

bool Terminal::read_more() {
  pollfd fd{fd_, POLLIN, 0};
  if (::poll(&fd, 1, kPatienceMs) <= 0) return false;
  char buffer[4096];
  const ssize_t n = ::read(fd_, buffer, sizeof buffer);
  if (n <= 0) return false;
  unread_.append(buffer, static_cast<size_t>(n));
  return true;
}

std::string Terminal::expect(const std::string& text) {
  size_t at = unread_.find(text);
  while (at == std::string::npos) {
    if (!read_more()) {
      ADD_FAILURE() << "'" << text << "' did not come, but: " << unread_;
      return "";
    }
    at = unread_.find(text);
  }
  const std::string seen = unread_.substr(0, at + text.size());
  unread_.erase(0, seen.size());
  return seen;
}

void Terminal::resize(int columns) {
  const winsize size{
      .ws_row = kRows, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(fd_, TIOCSWINSZ, &size), 0);
}

void Terminal::signal(int number) { ASSERT_EQ(::kill(child_, number), 0); }

bool Terminal::edits_lines() const {
  termios mode{};
  return ::tcgetattr(fd_, &mode) == 0 && (mode.c_lflag & ICANON) != 0 && (mode.c_lflag & ECHO) != 0;
}

int Terminal::wait() {
  while (read_more()) continue;
  int status = 0;
  if (::waitpid(child_, &status, WNOHANG) != child_) {
    // The terminal was closed a moment before the end.
    for (int i = 0; i < 1000; i++) {
      ::usleep(10'000);
      if (::waitpid(child_, &status, WNOHANG) == child_) break;
      if (i == 999) return -1;
    }
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace strata::test
