#include "server/soak/served_program.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

namespace strata::test {
namespace {

constexpr int kPatienceMs = 60'000;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

ServedProgram::ServedProgram(const std::vector<std::string>& flags) {
  std::vector<std::string> args = {STRATA_PROGRAM, "serve", STRATA_MODELS_DIR "/tales-moe-q4_k_m.gguf", "--port=0",
                                   "--ram-headroom-gib=0"};
  args.insert(args.end(), flags.begin(), flags.end());
  const std::vector<char*> argv = pointers(args);
  const std::string path = dir_.file("output");
  const int out = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  child_ = ::fork();
  if (child_ == 0) {  // nothing here allocates
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out);
  if (!wait_until_ready()) port_ = 0;
}

ServedProgram::~ServedProgram() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

bool ServedProgram::wait_until_ready() {
  for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += 10) {
    const std::string text = output();
    const size_t at = text.find("http://127.0.0.1:");
    if (at != std::string::npos && text.find(" is ready") != std::string::npos) {
      port_ = static_cast<uint16_t>(std::stoi(text.substr(at + 17)));
      return true;
    }
    if (::waitpid(child_, nullptr, WNOHANG) == child_) {
      child_ = -1;
      return false;
    }
    real_clock().sleep_ns(10'000'000);
  }
  return false;
}

std::string ServedProgram::output() const {
  std::ostringstream text;
  text << std::ifstream(dir_.file("output")).rdbuf();
  return text.str();
}

int64_t ServedProgram::resident_bytes() const {
  std::ifstream statm("/proc/" + std::to_string(child_) + "/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

int ServedProgram::descriptors() const {
  const std::filesystem::directory_iterator folder("/proc/" + std::to_string(child_) + "/fd");
  return static_cast<int>(std::distance(std::filesystem::begin(folder), std::filesystem::end(folder)));
}

int ServedProgram::end() {
  ::kill(child_, SIGTERM);
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace strata::test
