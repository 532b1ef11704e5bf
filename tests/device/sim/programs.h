// Small programs on the device seam that do what the engine's tiers do with it: a pool of stage buffers, a cache of
// experts, a loan of its slots, a hand-off between the parts of a split. Each is right as it stands, and has flaws that
// can be switched on: an order that it relies on and does not build.
#pragma once

#include <string>
#include <vector>

#include "device/sim/support.h"

namespace strata::test {

enum class Flaw {
  kNone,
  kEventWaitDropped,       // a stream uses what another one makes, without waiting for it
  kOneEventPerBuffer,      // instead of one for each stream that copies out of it: the last record hides the others
  kRefillWithoutWaiting,   // a stage buffer is read into while a copy leaves it
  kReadNotReaped,          // a stage buffer is copied from while it is being read into
  kPageableTakenAsPinned,  // a copy that should read when it runs takes the bytes when it is queued
  kTableEntryBeforeCopy,   // the table names a slot whose blob is not there yet
  kEvictionBeforeReaders,  // a slot is overwritten while an operation reads it
  kLoanWithoutWaitingForReaders,  // slots are lent while an operation reads them
  kRestoreBeforeBorrower,         // lent slots are filled again while the borrower works in them
  kHandOffBufferReused,           // the next rows go into the hand-off buffer before the other part has taken the last
  kFenceLostAtClose,              // stage buffers are freed while copies leave them
  kHostWriteAfterQueue,           // host code changes the inputs of a step whose upload is queued
  kTaskNotAwaited,                // an operation uses what a host task makes, without waiting for its ticket
};

// What a run has come to: a status that isn't ok, or values that aren't right.
struct Outcome {
  Status status;
  bool right = true;
};

struct Program {
  const char* name;
  Outcome (*run)(SimMachine& machine, Flaw flaw);
  struct Race {
    Flaw flaw;
    const char* memory;  // that it is about
  };
  std::vector<Race> races;  // the flaws that it can have
};
const std::vector<Program>& programs();
const char* flaw_name(Flaw flaw);

// Two devices whose memory takes all programs.
inline std::string program_spec(uint64_t seed) { return "sim:2x1MiB/seed=" + std::to_string(seed); }

}  // namespace strata::test
