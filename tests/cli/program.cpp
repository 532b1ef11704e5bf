#include "cli/program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "support/golden.h"

namespace strata::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// The two ends of a stream: ours, and the child's. -1 for none.
struct Ends {
  int ours = -1;
  int theirs = -1;
};

void close_end(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

Ends make_pipe(bool child_reads) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) std::abort();
  return child_reads ? Ends{.ours = fds[1], .theirs = fds[0]} : Ends{.ours = fds[0], .theirs = fds[1]};
}

// A terminal that passes bytes on as they are.
Ends make_terminal() {
  Ends ends;
  ends.ours = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends.ours < 0 || ::grantpt(ends.ours) != 0 || ::unlockpt(ends.ours) != 0) std::abort();
  ends.theirs = ::open(::ptsname(ends.ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios mode{};
  if (ends.theirs < 0 || ::tcgetattr(ends.theirs, &mode) != 0) std::abort();
  ::cfmakeraw(&mode);
  if (::tcsetattr(ends.theirs, TCSANOW, &mode) != 0) std::abort();
  return ends;
}

Ends make_stream(Stream stream, bool child_reads) {
  switch (stream) {
    case Stream::kPipe: return make_pipe(child_reads);
    case Stream::kTerminal: return make_terminal();
    case Stream::kClosed: return {};
  }
  return {};
}

std::vector<std::string> child_environment(const ProgramCall& call) {
  static const TempDir cache;  // for all children, whose files must not stay behind in the user's own
  std::vector<std::string> all;
  // Of two variables of one name the first counts.
  for (const auto& [name, value] : call.environment) all.push_back(name + "=" + value);
  all.emplace_back("STRATA_RAM_HEADROOM_GIB=0");
  all.push_back("XDG_CACHE_HOME=" + cache.path());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("STRATA_")) all.emplace_back(*variable);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Between fork and exec: nothing here allocates.
void become(const ProgramCall& call, const int (&fds)[3], char* const* args, char* const* environment) {
  for (int target = 0; target < 3; ++target) {
    if (fds[target] >= 0) {
      ::dup2(fds[target], target);
    } else {
      ::close(target);
    }
  }
  ::signal(SIGPIPE, SIG_DFL);
  ::execve(call.program.c_str(), args, environment);
  ::_exit(127);
}

// Feeds and drains a child until it has closed its outputs.
class Conversation {
 public:
  Conversation(const ProgramCall& call, pid_t child, int in, int out, int err)
      : call_(call), child_(child), in_(in), out_(out), err_(err) {}

  // False when it took too long.
  bool run(Outcome& outcome) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (out_ >= 0 || err_ >= 0) {
      if (std::chrono::steady_clock::now() > deadline) break;
      if (written_ == call_.input.size() && call_.in == Stream::kPipe) close_end(in_);
      const bool feeding = in_ >= 0 && call_.in == Stream::kPipe;
      pollfd fds[] = {{feeding ? in_ : -1, POLLOUT, 0}, {out_, POLLIN, 0}, {err_, POLLIN, 0}};
      if (::poll(fds, 3, call_.signal_when ? 10 : 1000) < 0 && errno != EINTR) break;
      if (fds[0].revents != 0) feed();
      if (fds[1].revents != 0) drain(out_, outcome.out);
      if (fds[2].revents != 0) drain(err_, outcome.err);
      react(outcome);
    }
    const bool ended = out_ < 0 && err_ < 0;
    for (int* fd : {&in_, &out_, &err_}) close_end(*fd);
    return ended;
  }

 private:
  void feed() {
    const ssize_t n = ::write(in_, call_.input.data() + written_, call_.input.size() - written_);
    if (n < 0) {
      close_end(in_);
    } else {
      written_ += static_cast<size_t>(n);
    }
  }

  static void drain(int& fd, std::string& to) {
    char buffer[4096];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) {  // the end; of a terminal, an error
      close_end(fd);
    } else {
      to.append(buffer, static_cast<size_t>(n));
    }
  }

  void react(const Outcome& outcome) {
    if (call_.interrupt_after > 0 && !interrupted_ && outcome.out.size() >= call_.interrupt_after) {
      interrupted_ = true;
      ::kill(child_, SIGINT);
    }
    if (call_.signal_when && !signalled_ && call_.signal_when()) {
      signalled_ = true;
      ::kill(child_, call_.signal);
    }
    if (call_.close_after > 0 && outcome.out.size() >= call_.close_after) close_end(out_);
  }

  const ProgramCall& call_;
  const pid_t child_;
  int in_, out_, err_;
  size_t written_ = 0;
  bool interrupted_ = false;
  bool signalled_ = false;
};

}  // namespace

Outcome call(const ProgramCall& call) {
  ::signal(SIGPIPE, SIG_IGN);  // a child that does not read its input is no failure
  Ends in = make_stream(call.in, true);
  Ends out = call.out_path.empty() ? make_stream(call.out, false)
                                   : Ends{.ours = -1, .theirs = ::open(call.out_path.c_str(), O_WRONLY | O_CLOEXEC)};
  Ends err = make_pipe(false);
  std::vector<std::string> args = call.args;
  args.insert(args.begin(), call.program);
  std::vector<std::string> environment = child_environment(call);
  const std::vector<char*> arg_pointers = pointers(args);
  const std::vector<char*> environment_pointers = pointers(environment);
  const int fds[3] = {in.theirs, out.theirs, err.theirs};
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) become(call, fds, arg_pointers.data(), environment_pointers.data());
  for (Ends* ends : {&in, &out, &err}) close_end(ends->theirs);

  Outcome outcome;
  const bool ended = Conversation(call, child, in.ours, out.ours, err.ours).run(outcome);
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (ended) outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome strata(const std::vector<std::string>& args, const std::string& input) {
  return call({.args = args, .input = input});
}

::testing::AssertionResult refused(const Outcome& outcome, int exit_code, const std::string& text) {
  const bool one_line = std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1 && outcome.err.ends_with('\n');
  const bool fits = outcome.exit_code == exit_code && outcome.out.empty() && one_line &&
                    outcome.err.starts_with("strata: ") && outcome.err.find(text) != std::string::npos;
  if (fits) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected exit code " << exit_code << " and one line with '" << text
                                       << "'; got " << outcome.exit_code << ", stdout '" << outcome.out << "', stderr '"
                                       << outcome.err << "'";
}

::testing::AssertionResult succeeded(const Outcome& outcome) {
  if (outcome.exit_code == 0 && outcome.err.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "exit code " << outcome.exit_code << ", stderr '" << outcome.err << "'";
}

}  // namespace strata::test
