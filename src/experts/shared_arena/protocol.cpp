#include "experts/shared_arena/protocol.h"

#include <iterator>

namespace strata::experts::shared_arena {
namespace {

struct Rule {
  Step from;
  Seen seen;
  Step to;
};

constexpr Rule kRules[] = {
    {Step::kOpen, Seen::kDone, Step::kLockFill},
    {Step::kOpen, Seen::kMissing, Step::kCreate},
    {Step::kCreate, Seen::kDone, Step::kLockFill},
    {Step::kCreate, Seen::kExists, Step::kOpen},
    {Step::kLockFill, Seen::kDone, Step::kCompare},
    {Step::kLockFill, Seen::kBusy, Step::kWait},
    {Step::kWait, Seen::kDone, Step::kLockFill},
    {Step::kWait, Seen::kStuck, Step::kFailed},
    {Step::kCompare, Seen::kSame, Step::kInspect},
    {Step::kCompare, Seen::kOther, Step::kOpen},
    {Step::kInspect, Seen::kPublished, Step::kShare},
    {Step::kInspect, Seen::kUnfinished, Step::kClaimToLoad},
    {Step::kInspect, Seen::kForeign, Step::kClaimToRemove},
    {Step::kClaimToRemove, Seen::kDone, Step::kRemove},
    {Step::kClaimToRemove, Seen::kBusy, Step::kFailed},
    {Step::kRemove, Seen::kDone, Step::kOpen},
    {Step::kClaimToLoad, Seen::kDone, Step::kLoad},
    {Step::kClaimToLoad, Seen::kBusy, Step::kFailed},
    {Step::kLoad, Seen::kDone, Step::kPublish},
    {Step::kLoad, Seen::kError, Step::kDiscard},
    {Step::kDiscard, Seen::kDone, Step::kFailed},
    {Step::kPublish, Seen::kDone, Step::kKeep},
    {Step::kPublish, Seen::kError, Step::kDiscard},
    {Step::kKeep, Seen::kDone, Step::kRelease},
    {Step::kShare, Seen::kDone, Step::kCompareShared},
    {Step::kShare, Seen::kBusy, Step::kFailed},
    {Step::kCompareShared, Seen::kSame, Step::kRelease},
    {Step::kCompareShared, Seen::kOther, Step::kOpen},
    {Step::kRelease, Seen::kDone, Step::kAttached},
};

constexpr const char* kNames[] = {
#define X(id, name, what) name,
    STRATA_ARENA_STEPS(X)
#undef X
};

}  // namespace

const char* step_name(Step step) { return kNames[static_cast<size_t>(step)]; }

Step next(Step step, Seen seen) {
  for (const Rule& rule : kRules) {
    if (rule.from == step && rule.seen == seen) return rule.to;
  }
  return Step::kFailed;
}

}  // namespace strata::experts::shared_arena
