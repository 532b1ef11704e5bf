#include "cli/chat/loading_line.h"

#include <chrono>

#include "base/format.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr auto kQuiet = std::chrono::milliseconds(500);
constexpr auto kPeriod = std::chrono::milliseconds(250);
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

LoadingLine::LoadingLine(std::string what) : what_(std::move(what)) {
  if (stderr_is_terminal()) thread_ = std::thread([this] { show(); });
}

LoadingLine::~LoadingLine() {
  if (!thread_.joinable()) return;
  {
    const LockGuard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LoadingLine::show() {
  const auto start = std::chrono::steady_clock::now();
  const auto done = [this] { return done_; };
  const LockGuard lock(mutex_);
  if (changed_.wait_for(mutex_, kQuiet, done)) return;
  do {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    write_stderr(format("{}loading {} ({:.1f} s)", kClearLine, what_, passed.count()));
  } while (!changed_.wait_for(mutex_, kPeriod, done));
  write_stderr(kClearLine);
}

}  // namespace strata::cli
