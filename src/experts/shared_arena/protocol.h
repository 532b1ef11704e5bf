// How engines come to share one arena file: the order of steps, as a pure function, so that the code that does the
// steps and the checker that tries all their interleavings follow the same rules.
//
// Two locks of the file, which the kernel drops when their holder ends. FILL is exclusive: who holds it alone looks at
// the header, loads, publishes or removes the file. USER is held by every engine that has the file mapped: exclusively
// while it writes the payload or is about to remove the file, shared afterwards. Nobody asks for USER without FILL, so
// an engine that finds a published header takes USER before anybody can remove the file.
#pragma once

namespace strata::experts::shared_arena {

// What an engine does next. X(identifier, "name", "what it does")
#define STRATA_ARENA_STEPS(X)                                                                \
  X(kOpen, "open", "drops the file it had, and opens the one that the path names")           \
  X(kCreate, "create", "makes the file, unless somebody just has")                           \
  X(kLockFill, "lock-fill", "asks for FILL")                                                 \
  X(kWait, "wait", "FILL is another engine's: lets a moment pass")                           \
  X(kCompare, "compare", "holds FILL: does the path still name this file?")                  \
  X(kInspect, "inspect", "reads the header")                                                 \
  X(kClaimToRemove, "claim-to-remove", "asks for USER exclusively; others may map the file") \
  X(kRemove, "remove", "takes the path away from the file")                                  \
  X(kClaimToLoad, "claim-to-load", "the same, before it writes")                             \
  X(kLoad, "load", "takes the memory, writes the header and the payload, checks it")         \
  X(kDiscard, "discard", "the load failed: takes the path away from the file")               \
  X(kPublish, "publish", "the last write: the header says that the payload is complete")     \
  X(kKeep, "keep", "turns USER from exclusive to shared")                                    \
  X(kShare, "share", "found it published: takes USER, shared")                               \
  X(kCompareShared, "compare-shared", "holds both: does the path still name this file?")     \
  X(kRelease, "release", "gives FILL back")                                                  \
  X(kAttached, "attached", "the end: the payload can be read")                               \
  X(kFailed, "failed", "the end: an error says why")

enum class Step {
#define X(id, name, what) id,
  STRATA_ARENA_STEPS(X)
#undef X
};
const char* step_name(Step step);

// What a step found.
enum class Seen {
  kDone,        // it did what it is for; locks: it has them
  kMissing,     // open: the path names nothing
  kExists,      // create: the path names something
  kBusy,        // locks: somebody else's
  kStuck,       // wait: the holder of FILL makes no progress
  kSame,        // compare: yes
  kOther,       // compare: no
  kPublished,   // inspect: complete, and of this pack
  kUnfinished,  // inspect: nobody has published it, and it can be loaded into
  kForeign,     // inspect: of another pack, size or format, or damaged
  kError,       // any: it failed
};

// The step after one that saw this. What a step can't see leads to kFailed.
Step next(Step step, Seen seen);

inline bool is_end(Step step) { return step == Step::kAttached || step == Step::kFailed; }
// Whether an engine in this step has the file to itself, and is about to change it.
inline bool is_loading(Step step) { return step == Step::kLoad || step == Step::kPublish; }

}  // namespace strata::experts::shared_arena
