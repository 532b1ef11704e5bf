#include "experts/arena_model.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/format.h"
#include "base/xxhash64.h"

namespace strata::test {
namespace {

using experts::shared_arena::Seen;
using experts::shared_arena::Step;

constexpr int8_t kNone = -1;
constexpr int8_t kEmpty = 0, kPartial = 1, kComplete = 2;

struct ModelFile {
  int8_t content = kNone;  // kNone: there is no such file
  int8_t pack = 0;
  int8_t fill = kNone;       // process
  int8_t user_alone = kNone;
  int8_t users = 0;          // a bit for each process
};

struct Process {
  int8_t step = 0;
  int8_t file = kNone;
  int8_t phase = 0;  // within a step of several actions
  int8_t dead = 0, stopped = 0, failed_in_load = 0;

  Step at() const { return static_cast<Step>(step); }
  bool ended() const { return dead != 0 || is_end(at()); }
};

// All of it bytes, so that states compare and hash as memory.
struct State {
  std::array<Process, kModelProcesses> processes;
  std::array<ModelFile, kModelFiles> files;
  int8_t path = kNone;
  int8_t crashes = 0, aborts = 0, stops = 0, load_errors = 0, removals = 0;

  bool operator==(const State& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(alignof(State) == 1);

struct HashState {
  size_t operator()(const State& state) const { return xxhash64(std::as_bytes(std::span(&state, 1))); }
};

class World {
 public:
  World(const ModelSpec& spec, State state) : spec_(spec), s_(state) {}
  State& state() { return s_; }
  const std::string& violation() const { return violation_; }

  // Every way in which process p can do its next action; `branch` counts them. False past the last.
  bool act(int p, int branch);
  void leave(int p);
  void remove_path() { s_.path = kNone; }
  void settle();
  void check();

 private:
  ModelFile& file(int p) { return s_.files[static_cast<size_t>(s_.processes[static_cast<size_t>(p)].file)]; }
  Process& process(int p) { return s_.processes[static_cast<size_t>(p)]; }
  int pack(int p) const { return spec_.packs[static_cast<size_t>(p)]; }
  int8_t new_file();
  void blame(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }

  // What the step sees; nothing where it has more to do.
  std::optional<Seen> perform(int p, int branch);
  std::optional<Seen> open(int p);
  std::optional<Seen> load(int p, int branch);
  std::optional<Seen> discard(int p);
  Seen create(int p);
  Seen inspect(int p);
  Seen claim(int p);
  Seen remove(int p);
  int n_branches(int p) const;

  const ModelSpec& spec_;
  State s_;
  std::string violation_;
};

int8_t World::new_file() {
  for (int8_t i = 0; i < kModelFiles; i++) {
    ModelFile& f = s_.files[static_cast<size_t>(i)];
    if (f.content != kNone) continue;
    f = ModelFile{.content = kEmpty};
    return i;
  }
  blame("the model has too few files");
  return 0;
}

std::optional<Seen> World::open(int p) {
  if (process(p).file != kNone) {  // the old one is closed first
    const Process before = process(p);
    leave(p);
    process(p) = before;
    process(p).file = kNone;
    return std::nullopt;
  }
  process(p).file = s_.path;
  return s_.path == kNone ? Seen::kMissing : Seen::kDone;
}

Seen World::create(int p) {
  if (s_.path != kNone) return Seen::kExists;
  s_.path = process(p).file = new_file();
  return Seen::kDone;
}

Seen World::inspect(int p) {
  const ModelFile& f = file(p);
  if (f.content == kEmpty) return Seen::kUnfinished;
  if (f.pack != pack(p)) return Seen::kForeign;
  return f.content == kComplete ? Seen::kPublished : Seen::kUnfinished;
}

Seen World::claim(int p) {
  ModelFile& f = file(p);
  if ((f.user_alone != kNone && f.user_alone != p) || (f.users & ~(1 << p)) != 0) return Seen::kBusy;
  f.user_alone = static_cast<int8_t>(p);
  f.users = 0;
  return Seen::kDone;
}

Seen World::remove(int p) {
  if (spec_.removals == 0 && s_.path != process(p).file) blame("a file is removed that the remover has not looked at");
  const ModelFile& f = file(p);
  if (f.content == kComplete && f.pack == pack(p)) blame("a published file is removed by one who wants it");
  remove_path();
  return Seen::kDone;
}

std::optional<Seen> World::load(int p, int branch) {
  ModelFile& f = file(p);
  if (process(p).phase == 0) {
    process(p).phase = 1;
    f.content = kPartial;
    f.pack = static_cast<int8_t>(pack(p));
    return std::nullopt;
  }
  if (branch == 0) return Seen::kDone;
  s_.load_errors--;
  process(p).failed_in_load = 1;
  return Seen::kError;
}

std::optional<Seen> World::discard(int p) {
  if (process(p).phase == 0 && s_.path == process(p).file) {
    process(p).phase = 1;
    return std::nullopt;
  }
  if (process(p).phase == 1) remove_path();
  return Seen::kDone;
}

std::optional<Seen> World::perform(int p, int branch) {
  ModelFile* f = process(p).file == kNone ? nullptr : &file(p);
  switch (process(p).at()) {
    case Step::kOpen:
      return open(p);
    case Step::kCreate:
      return create(p);
    case Step::kLockFill:
      if (f->fill != kNone && f->fill != p) return Seen::kBusy;
      f->fill = static_cast<int8_t>(p);
      return Seen::kDone;
    case Step::kWait:
      return branch == 0 ? Seen::kDone : Seen::kStuck;
    case Step::kCompare:
    case Step::kCompareShared:
      return s_.path == process(p).file ? Seen::kSame : Seen::kOther;
    case Step::kInspect:
      return inspect(p);
    case Step::kClaimToRemove:
    case Step::kClaimToLoad:
      return claim(p);
    case Step::kRemove:
      return remove(p);
    case Step::kLoad:
      return load(p, branch);
    case Step::kDiscard:
      return discard(p);
    case Step::kPublish:
      f->content = kComplete;
      return Seen::kDone;
    case Step::kKeep:
    case Step::kShare:
      if (f->user_alone != kNone && f->user_alone != p) return Seen::kBusy;
      f->user_alone = kNone;
      f->users = static_cast<int8_t>(f->users | 1 << p);
      return Seen::kDone;
    case Step::kRelease:
      if (f->fill == p) f->fill = kNone;
      return Seen::kDone;
    case Step::kAttached:
    case Step::kFailed:
      break;
  }
  return Seen::kError;
}

int World::n_branches(int p) const {
  const Process& process = s_.processes[static_cast<size_t>(p)];
  if (process.at() == Step::kLoad) return process.phase == 1 && s_.load_errors > 0 ? 2 : 1;
  if (process.at() != Step::kWait) return 1;
  // Progress that stops is only seen of a process that stands still.
  const int8_t holder = s_.files[static_cast<size_t>(process.file)].fill;
  return holder != kNone && s_.processes[static_cast<size_t>(holder)].stopped != 0 ? 2 : 1;
}

bool World::act(int p, int branch) {
  if (branch >= n_branches(p)) return false;
  if (const std::optional<Seen> seen = perform(p, branch)) {
    process(p).step = static_cast<int8_t>(spec_.next(process(p).at(), *seen));
    process(p).phase = 0;
  }
  return true;
}

// The kernel closes what a process had open, and drops its locks.
void World::leave(int p) {
  if (process(p).file == kNone) return;
  ModelFile& f = file(p);
  if (f.fill == p) f.fill = kNone;
  if (f.user_alone == p) f.user_alone = kNone;
  f.users = static_cast<int8_t>(f.users & ~(1 << p));
  process(p).file = kNone;
}

// Puts a state into the one form of all that differ only in the numbers of files.
void World::settle() {
  for (int p = 0; p < kModelProcesses; p++) {
    if (process(p).at() == Step::kFailed) leave(p);
  }
  std::array<int8_t, kModelFiles> numbers;
  numbers.fill(kNone);
  std::array<ModelFile, kModelFiles> files = {};
  int8_t n = 0;
  const auto renumber = [&](int8_t& file) {
    if (file == kNone) return;
    int8_t& number = numbers[static_cast<size_t>(file)];
    if (number == kNone) {
      files[static_cast<size_t>(n)] = s_.files[static_cast<size_t>(file)];
      number = n++;
    }
    file = number;
  };
  renumber(s_.path);
  for (Process& process : s_.processes) renumber(process.file);
  s_.files = files;
}

void World::check() {
  int loading = 0;
  for (int p = 0; p < kModelProcesses; p++) {
    const Process& one = process(p);
    if (one.dead != 0) continue;
    loading += is_loading(one.at());
    if (one.at() != Step::kAttached) continue;
    const ModelFile& f = file(p);
    if (f.content != kComplete) blame(format("process {} is attached to what is not published", p));
    if (f.pack != pack(p)) blame(format("process {} is attached to another pack", p));
    if (spec_.removals == 0 && s_.path != one.file) blame(format("process {} has lost its file", p));
  }
  // Beside a file that somebody took away a second one may be loaded.
  if (loading > 1 && spec_.removals == 0) blame("two processes load");
}

class Checker {
 public:
  explicit Checker(const ModelSpec& spec) : spec_(spec) {}

  ModelReport run() {
    State first{};
    first.crashes = static_cast<int8_t>(spec_.crashes);
    first.aborts = static_cast<int8_t>(spec_.aborts);
    first.stops = static_cast<int8_t>(spec_.stops);
    first.load_errors = static_cast<int8_t>(spec_.load_errors);
    first.removals = static_cast<int8_t>(spec_.removals);
    World world(spec_, first);
    world.settle();
    add(world, kNoState, "start", false);
    for (uint32_t i = 0; i < states_.size() && report_.violation.empty(); i++) expand(i);
    if (report_.violation.empty()) find_endless_wait();
    report_.n_states = states_.size();
    return report_;
  }

 private:
  static constexpr uint32_t kNoState = UINT32_MAX;
  struct Known {
    State state;
    uint32_t from;
    const char* how;
    int8_t who;
  };

  void add(World& world, uint32_t from, const char* how, bool helps, int who = -1) {
    world.settle();
    world.check();
    const auto [found, is_new] = numbers_.emplace(world.state(), static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back({world.state(), from, how, static_cast<int8_t>(who)});
    if (helps) edges_.push_back({from, found->second});
    if (!world.violation().empty() && report_.violation.empty()) {
      report_.violation = world.violation() + trace(from) + format("\n  {}: {}", who, how);
    }
  }

  void expand(uint32_t i) {
    for (int p = 0; p < kModelProcesses; p++) {
      const Process process = states_[i].state.processes[static_cast<size_t>(p)];
      report_.any_attached |= process.dead == 0 && process.at() == Step::kAttached;
      report_.any_failed |= process.dead == 0 && process.at() == Step::kFailed && process.failed_in_load == 0;
      if (process.dead != 0) {
        restart(i, p);
        continue;
      }
      if (process.stopped != 0) {
        set_stopped(i, p, 0, "goes on");
        continue;
      }
      if (!process.ended()) step(i, p);
      if (process.at() != Step::kFailed) end(i, p);
      if (!process.ended() && states_[i].state.stops > 0) set_stopped(i, p, 1, "stands still");
    }
    if (states_[i].state.removals > 0) {
      World world(spec_, states_[i].state);
      world.state().removals--;
      world.remove_path();
      add(world, i, "somebody removes the file", false);
    }
  }

  void step(uint32_t i, int p) {
    const char* name = step_name(states_[i].state.processes[static_cast<size_t>(p)].at());
    for (int branch = 0;; branch++) {
      World world(spec_, states_[i].state);
      if (!world.act(p, branch)) return;
      add(world, i, name, true, p);
    }
  }

  void end(uint32_t i, int p) {
    const State& state = states_[i].state;
    const Step at = state.processes[static_cast<size_t>(p)].at();
    const auto die = [&](World& world, const char* how) {
      world.leave(p);
      world.state().processes[static_cast<size_t>(p)] = Process{.dead = 1};
      add(world, i, how, false, p);
    };
    if (state.crashes > 0) {
      World world(spec_, state);
      world.state().crashes--;
      die(world, "dies");
    }
    if (states_[i].state.aborts > 0 && (is_loading(at) || at == Step::kKeep)) {
      World world(spec_, states_[i].state);
      world.state().aborts--;
      world.remove_path();
      die(world, "is ended by a signal");
    }
  }

  void restart(uint32_t i, int p) {
    World world(spec_, states_[i].state);
    world.state().processes[static_cast<size_t>(p)] = Process{};
    add(world, i, "starts again", false, p);
  }

  void set_stopped(uint32_t i, int p, int8_t stopped, const char* how) {
    World world(spec_, states_[i].state);
    world.state().processes[static_cast<size_t>(p)].stopped = stopped;
    if (stopped != 0) world.state().stops--;
    add(world, i, how, false, p);
  }

  // From every state the ends have to be in reach by the processes' own steps.
  void find_endless_wait() {
    std::vector<std::vector<uint32_t>> before(states_.size());
    for (const auto& [from, to] : edges_) before[to].push_back(from);
    std::vector<bool> ends(states_.size());
    std::vector<uint32_t> work;
    for (uint32_t i = 0; i < states_.size(); i++) {
      const auto& all = states_[i].state.processes;
      ends[i] = std::all_of(all.begin(), all.end(), [](const Process& p) { return p.ended() || p.stopped != 0; });
      if (ends[i]) work.push_back(i);
    }
    while (!work.empty()) {
      const uint32_t to = work.back();
      work.pop_back();
      for (const uint32_t from : before[to]) {
        if (ends[from]) continue;
        ends[from] = true;
        work.push_back(from);
      }
    }
    const auto stuck = std::find(ends.begin(), ends.end(), false);
    if (stuck == ends.end()) return;
    report_.violation = "a process waits for ever" + trace(static_cast<uint32_t>(stuck - ends.begin()));
  }

  std::string trace(uint32_t i) const {
    std::vector<std::string> lines;
    for (; i != kNoState; i = states_[i].from) lines.push_back(format("\n  {}: {}", states_[i].who, states_[i].how));
    std::string text;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += *line;
    return text;
  }

  const ModelSpec& spec_;
  std::vector<Known> states_;
  std::unordered_map<State, uint32_t, HashState> numbers_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  ModelReport report_;
};

}  // namespace

ModelReport check_model(const ModelSpec& spec) { return Checker(spec).run(); }

}  // namespace strata::test
