// An engine as a process of its own: opens an arena, says what happens, a line each on stdout, and keeps it until its
// stdin ends.
//
// arena_engine MODEL-NAME MODEL-FILE ARENA-FILE [TIMEOUT-S [ACTION WHERE]]
//
// ACTION is kill or stop, which it does to itself, or fail; WHERE is the name of a step, or the number of a read of
// experts (fail: only that). Lines: "step NAME", "read N", "waiting PID", "replaced", and at last "attached LOADED
// READS CHECKSUM" (as published, and it found the same) or "failed CODE MESSAGE".
#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "base/ending.h"
#include "base/format.h"
#include "experts/arena_models.h"
#include "experts/checksum.h"

namespace strata::test {
namespace {

namespace shared_arena = experts::shared_arena;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

struct Plan {
  std::string action, where;
  bool counting = false;  // reads, from the first step on
  int n_reads = 0;

  // Whether this is the place, after doing to the process what is to be done there.
  bool reached(const std::string& place) const {
    if (where != place) return false;
    if (action == "kill") ::raise(SIGKILL);
    if (action == "stop") ::raise(SIGSTOP);
    return true;
  }
};

// The model's file, whose reads are places.
class WatchedFile final : public File {
 public:
  WatchedFile(std::unique_ptr<File> file, Plan& plan) : file_(std::move(file)), plan_(plan) {}
  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return file_->size(); }
  Result<std::unique_ptr<Mapping>> map() override { return file_->map(); }
  Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
    if (plan_.counting) {
      const std::string number = format("{}", ++plan_.n_reads);
      say("read " + number);
      if (plan_.reached(number) && plan_.action == "fail") return Error{ErrorCode::kIo, "cannot read: as planned"};
    }
    return file_->read_some(offset, dst);
  }

 private:
  std::unique_ptr<File> file_;
  Plan& plan_;
};

class WatchedFiles final : public FileSystem {
 public:
  explicit WatchedFiles(Plan& plan) : plan_(plan) {}
  Result<std::unique_ptr<File>> open(const std::string& path) override {
    ASSIGN_OR_RETURN(auto file, real_file_system().open(path));
    return std::unique_ptr<File>(std::make_unique<WatchedFile>(std::move(file), plan_));
  }
  bool exists(const std::string& path) override { return real_file_system().exists(path); }
  bool is_directory(const std::string& path) override { return real_file_system().is_directory(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return real_file_system().list(path); }

 private:
  Plan& plan_;
};

class Teller final : public shared_arena::Watcher {
 public:
  explicit Teller(Plan& plan) : plan_(plan) {}
  void step(shared_arena::Step step) override {
    const std::string name = step_name(step);
    say("step " + name);
    // The samples that tell packs apart are read before.
    plan_.counting = true;
    static_cast<void>(plan_.reached(name));
  }
  void waiting(uint32_t pid, int64_t) override { say(format("waiting {}", pid)); }
  void replaced(shared_arena::Kind) override { say("replaced"); }

 private:
  Plan& plan_;
};

Status run(int argc, char** argv) {
  const std::string name = argv[1];
  Plan plan;
  int64_t timeout_s = 600;
  if (argc > 4) std::from_chars(argv[4], argv[4] + std::string_view(argv[4]).size(), timeout_s);
  if (argc > 6) plan = {.action = argv[5], .where = argv[6]};
  WatchedFiles files(plan);
  ASSIGN_OR_RETURN(const auto model, gguf::Model::open(argv[2], files));
  const experts::ExpertLayout layout = arena_layout(name, *model);
  ThreadPool threads({.n_threads = 1});
  Stats stats;
  Teller teller(plan);
  ASSIGN_OR_RETURN(const auto arena, experts::SharedArenaSource::create({.path = argv[3],
                                                                        .model = *model,
                                                                        .layout = layout,
                                                                        .threads = threads,
                                                                        .clock = real_clock(),
                                                                        .stats = stats,
                                                                        .watcher = teller,
                                                                        .timeout_s = timeout_s}));
  const int64_t reads = stats.get(Counter::kFileReads);
  ASSIGN_OR_RETURN(const uint64_t checksum, source_checksum(*arena, layout, threads));
  if (checksum != arena->published_checksum()) return Error{ErrorCode::kInternal, "other bytes than were published"};
  say(format("attached {} {} {:016x}", arena->report().find("loaded ") < arena->report().find("attached ") ? 1 : 0,
             reads, checksum));
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
  return arena->health();
}

}  // namespace
}  // namespace strata::test

int main(int argc, char** argv) {
  using namespace strata;
  if (argc < 4) return 2;
  handle_ending_signals();
  const Status status = test::run(argc, argv);
  if (status.ok()) return 0;
  test::say(format("failed {} {}", exit_code_of(status.error().code), status.error().message));
  return exit_code_of(status.error().code);
}
