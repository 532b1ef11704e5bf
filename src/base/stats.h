// Named counters (reads, waits, bytes, hits, allocations): what tests compare and --stats prints. Adding is one relaxed
// atomic operation, from any thread; the names are fixed at compile time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace strata {

// X(identifier, "printed name", "what it counts")
#define STRATA_COUNTERS(X)                                                                    \
  X(kFileReads, "file_reads", "reads of expert bytes from a file")                            \
  X(kFileReadBytes, "file_read_bytes", "bytes of those reads")                                \
  X(kArenaLeases, "arena_leases", "expert leases answered from the arena")                    \
  X(kMappedLeases, "mapped_leases", "expert leases answered from mapped files")               \
  X(kMappedReadAheads, "mapped_read_aheads", "experts whose pages the system was asked for")  \
  X(kResidentLeases, "resident_leases", "expert leases answered from the resident copy")      \
  X(kResidentReplaced, "resident_replaced", "experts of the copy that made place for others") \
  X(kResidentFileReads, "resident_file_reads", "expert leases that the copy left to files")   \
  X(kStageHits, "stage_hits", "expert leases answered from a stage buffer")                   \
  X(kStageFills, "stage_fills", "experts read into a stage buffer")                           \
  X(kStageWaits, "stage_waits", "calls that waited for experts on their way")                 \
  X(kStageFenceWaits, "stage_fence_waits", "waits for a copy out of a buffer to refill")      \
  X(kHintsUsed, "hints_used", "experts read on a hint and then asked for")                    \
  X(kHintsWasted, "hints_wasted", "experts read on a hint in vain")                           \
  X(kExpertsComputed, "experts_computed", "(layer, expert) visits computed on the CPU")       \
  X(kExpertRows, "expert_rows", "(token, expert) pairs computed on the CPU")                  \
  X(kExpertBytes, "expert_bytes", "bytes of experts that the CPU read to compute them")       \
  X(kExpertNs, "expert_ns", "time in which the CPU computed experts")                         \
  X(kGuessedExperts, "guessed_experts", "experts read ahead for a device's next layer")         \
  X(kGuessesUsed, "guesses_used", "those of them that the CPU then computed")                 \
  X(kCacheHits, "cache_hits", "(token, expert) pairs whose expert was in a device's cache")   \
  X(kCacheMisses, "cache_misses", "(token, expert) pairs whose expert was not")               \
  X(kCacheUploads, "cache_uploads", "experts copied into a device's cache")                   \
  X(kCacheUploadBytes, "cache_upload_bytes", "bytes of those copies")                         \
  X(kCacheLoans, "cache_loans", "times that slots of a cache were lent")                      \
  X(kCacheLentBytes, "cache_lent_bytes", "bytes of those slots")                              \
  X(kCacheLentSlots, "cache_lent_slots", "slots that are lent (a gauge)")                     \
  X(kStreamedExperts, "streamed_experts", "experts that came over the link for prompts")      \
  X(kStreamedBytes, "streamed_bytes", "bytes of those experts")                               \
  X(kStreamedRows, "streamed_rows", "(token, expert) pairs computed from them")               \
  X(kLinkedExperts, "linked_experts", "experts that a device read from RAM to compute them")  \
  X(kLinkedBytes, "linked_bytes", "bytes of those experts")                                   \
  X(kLinkedRows, "linked_rows", "(token, expert) pairs computed from them")                   \
  X(kCacheSwaps, "cache_swaps", "experts that took another one's slot in a device's cache")   \
  X(kCacheSwapsUndone, "cache_swaps_undone", "such moves that failed and were undone")        \
  X(kNgramRows, "ngram_rows", "rows of the n-gram table that tokens needed")                  \
  X(kNgramDistinctRows, "ngram_distinct_rows", "different ones of those in their steps")      \
  X(kNgramReads, "ngram_reads", "reads of such rows from a file")                             \
  X(kNgramReadBytes, "ngram_read_bytes", "bytes of those reads")                              \
  X(kNgramWaits, "ngram_waits", "times that a layer waited for such a row")                   \
  X(kTokensForward, "tokens_forward", "rows that went through the layers")                    \
  X(kSteps, "steps", "forward steps")                                                         \
  X(kGraphCaptures, "graph_captures", "graphs captured")                                      \
  X(kGraphReplays, "graph_replays", "graphs replayed")                                        \
  X(kGraphNodes, "graph_nodes", "kernels, copies and waits of those")                         \
  X(kDeviceAllocations, "device_allocations", "memory that devices took while steps ran")     \
  X(kKvBlocksUsed, "kv_blocks_used", "KV blocks held by sequences (a gauge)")

enum class Counter {
#define X(id, name, help) id,
  STRATA_COUNTERS(X)
#undef X
      kCount
};

class Stats {
 public:
  void add(Counter counter, int64_t n = 1) { at(counter).fetch_add(n, std::memory_order_relaxed); }
  int64_t get(Counter counter) const { return values_[static_cast<size_t>(counter)].load(std::memory_order_relaxed); }
  void reset();
  // One "name value" line per counter that is not zero.
  std::string to_text() const;

 private:
  std::atomic<int64_t>& at(Counter counter) { return values_[static_cast<size_t>(counter)]; }
  std::array<std::atomic<int64_t>, static_cast<size_t>(Counter::kCount)> values_{};
};

const char* counter_name(Counter counter);

}  // namespace strata
