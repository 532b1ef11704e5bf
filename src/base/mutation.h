// Faults that control tests switch on to prove that a check bites. They exist only in the libraries that tests build
// with STRATA_MUTATIONS; in every other build mutated() is the constant false.
#pragma once

namespace strata {

enum class Mutation {
  kNone,
  kSumInArrivalOrder,  // expert rows summed in another order than their rank
  kChunkBorderOffByOne,  // the second chunk of a prompt starts one position late
  kBankFreeNotAwaited,   // experts are copied into a bank that the device may still compute from
  kBankFullNotAwaited,   // the device computes from a bank whose experts may still be on their way
  kLoanNotAwaited,       // slots are lent while operations may still read them
  kLentNotKept,          // the resident copy lacks what prompts borrow
  kHandOffNotAwaited,    // hidden rows are handed to the next part while they may still be on their way
  kSwapWithoutSaving,  // an expert leaves its slot before its bytes are kept elsewhere
  kOneFencePerBuffer,  // a stage buffer remembers only the copy that was noted last
};

#if defined(STRATA_MUTATIONS)
inline Mutation g_mutation = Mutation::kNone;
inline bool mutated(Mutation mutation) { return g_mutation == mutation; }
#else
constexpr bool mutated(Mutation) { return false; }
#endif

}  // namespace strata
