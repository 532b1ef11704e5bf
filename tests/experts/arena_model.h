// A model of engines that share an arena file, for a checker that tries every interleaving of their steps: the rules
// are those that the engines follow (experts/shared_arena/protocol.h), the file system and its locks are modelled.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "experts/shared_arena/protocol.h"

namespace strata::test {

inline constexpr int kModelProcesses = 3;
inline constexpr int kModelFiles = kModelProcesses + 1;  // one at the path, and one that each still has open

using NextRule = std::function<experts::shared_arena::Step(experts::shared_arena::Step, experts::shared_arena::Seen)>;

// What may happen in a run, beside the steps.
struct ModelSpec {
  std::array<int, kModelProcesses> packs = {};  // that each process wants
  int crashes = 0;       // ends without warning; the process may start again
  int aborts = 0;        // ends by a signal that lets the loader take the path away
  int stops = 0;         // a process stands still, and may go on later
  int load_errors = 0;
  int removals = 0;      // somebody who follows no rules takes the path away
  NextRule next = experts::shared_arena::next;
};

struct ModelReport {
  std::string violation;  // the first that was found, with the steps that lead there; empty for none
  size_t n_states = 0;
  bool any_attached = false;
  bool any_failed = false;  // a process ended with an error
};

// Tries everything that can happen, and holds each state to what is promised:
// - one process at most loads;
// - who is attached has a file that is published, of its pack, and, if nobody broke the rules, at the path;
// - whatever happened, processes that go on come to their ends without help.
ModelReport check_model(const ModelSpec& spec);

}  // namespace strata::test
