// What an engine is opened with: the settings of design, parsed and checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/settings.h"
#include "kernels/kernels.h"
#include "model/ngram/table.h"
#include "model/rope.h"

namespace strata::engine {

enum class ExpertPlace { kAuto, kArena, kResident, kMapped, kDirect };

// What "auto" of --act and --kv-type means: exact (float32 throughout), or fast (activations rounded to 8 bits, KV
// cache in float16).
enum class NumericPath { kFloat, kFast };

struct EngineConfig {
  std::string device = "cpu";           // or GPUs: cuda:0 (device/cuda/cuda.h), or sim:... (device/sim/spec.h)
  std::string vram_budget;              // of the devices, as device_limits() takes it; empty: all that they have
  uint64_t vram_reserve_bytes = 700 * kMiB;  // of a GPU, that stay free
  std::optional<int64_t> expert_cache;  // slots of the device's cache; absent: what fits, and on cpu none
  int64_t cache_min_slots = 0;          // that stay when slots are lent
  std::optional<double> pcie_frac;      // of missing experts, that devices read over the link; absent: measured
  std::optional<int64_t> stream_rows;   // of a step that streams; absent: experts::auto_stream_rows
  bool prefill_borrow = true;           // it streams through slots of the cache, else through memory of its own
  bool lend_regions = true;             // a resident copy has the experts of those slots too
  std::vector<int> layer_split;         // layers that each device computes; empty: chosen (engine/layer_split.h)
  int64_t adapt_every = 0;              // steps between two decisions on which experts to cache; 0: they stay
  std::string expert_profile;           // file of the ranking that the cache is filled by; empty: none
  std::string expert_profile_save;      // file that takes what was learned of it; empty: none
  kernels::KvType kv_type = kernels::KvType::kF32;
  bool round_activations = false;  // to 8 bits, where weight types have integer products
  int64_t context = 0;             // tokens of a sequence; 0: the model's own, at most kAutoContext
  int threads = 0;                 // computing threads; 0: one per physical core
  std::vector<int> cpus;           // cores to use; empty: all that the process may
  ExpertPlace experts = ExpertPlace::kAuto;
  std::optional<uint64_t> resident_budget_bytes;  // RAM for experts that stay there; absent: what fits
  std::string shared_arena;                       // file that engines share the experts in; empty: none
  int64_t shared_arena_timeout_s = 600;           // of a loader that makes no progress
  bool verify_arena = false;                      // say the checksum of all experts
  // Takes lines that whoever asked for a shared arena or its checksum has to see; null: they are logged.
  std::function<void(const std::string&)> notice;
  bool peer_copies = true;                        // between devices that reach each other; else through pinned memory
  bool stage_pin = true;                          // page-lock the buffers of direct reads
  int64_t io_timeout_s = 600;                     // of a read of experts
  int64_t stall_notice_s = 30;                    // without progress, until a warning says who waits for what; 0: never
  const model::TableKind* table = &model::kDirectTable;  // where rows of an n-gram table are read from
  uint64_t ram_bytes = 0;                         // RAM the plan may count on; 0: what the system says
  std::optional<uint64_t> ram_headroom_bytes;     // RAM left free; absent: kAutoHeadroomBytes, at most a quarter of it
  int chunk = 512;                                // prompt tokens computed together
  bool chunk_may_grow = false;                    // on GPUs with room for more: settle_chunk() (placing.h)
  bool deterministic = false;
  bool use_graphs = true;
  std::string isa = "auto";
  model::RopeOverrides rope;  // of what the model's file says
  int max_sequences = 1;
  int max_checkpoints = 0;
};
inline constexpr int64_t kAutoContext = 8192;
// Prompt tokens that a GPU computes together when nothing else is said: as long as all experts of the models it was
// measured with take over the link (bench/results/hybrid.md).
inline constexpr int kGpuChunk = 2048;
// Where each has this much memory to use, as a card of 16 GB has: the buffers are twice as large (0.4 GiB more for
// qwen3-30b-a3b), and an H200 computes as long as all its experts take over the link.
inline constexpr int kLongGpuChunk = 4096;
inline constexpr uint64_t kLongGpuChunkBudget = 14 * kGiB;
inline constexpr uint64_t kAutoHeadroomBytes = 4 * kGiB;

// From the settings of a command. kUnsupported for a device this build does not have.
Result<EngineConfig> config_from(const Settings& settings, NumericPath auto_path);

}  // namespace strata::engine
