// What lies where: for each part of a model the slots of its device's cache and the ring of its prompts, for the host
// which source serves the other experts and how many of them stay in RAM. Pure and deterministic: nothing is allocated
// or read, and the sizes are those that the allocators ask for too.
//
// Order of a device's memory: weights, KV and state, step buffers, a ring of its own, then the cache takes the rest. Of
// RAM: what the parts need of the host, buffers of direct reads if any expert is read from files while steps run, then
// experts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experts/cache.h"
#include "experts/complement.h"
#include "experts/streamed_ring.h"

namespace strata::experts {

// A run of layers on one device, and what it takes there beside experts (model::Part::measure).
struct PartNeeds {
  std::string device;  // its name, for people
  size_t device_index = 0;  // among those that were there to choose from
  int first_layer = 0;
  int last_layer = 0;          // one past
  bool on_host = false;        // the device's memory is the RAM of the plan
  uint64_t budget_bytes = 0;   // of a device with memory of its own
  uint64_t weights_bytes = 0;
  uint64_t state_bytes = 0;    // KV cache and recurrent state
  int64_t context_tokens = 0;  // that it is for
  uint64_t step_bytes = 0;     // without a ring, with the tables of the largest one if prompts can stream
  uint64_t host_bytes = 0;     // of RAM, where the device has memory of its own

  uint64_t device_bytes() const { return weights_bytes + state_bytes + step_bytes; }
};

// Where the host gets the bytes of experts.
enum class SourceKind { kArena, kResident, kMapped, kDirect };
const char* source_name(SourceKind kind);

struct PlacementOptions {
  std::optional<SourceKind> source = {};       // absent: chosen
  std::optional<int64_t> cache_slots = {};     // of each device; absent: what fits, and none on the host
  int64_t cache_min_slots = 0;            // that a cache keeps when it lends
  bool prefill_borrow = true;             // rings lie in slots that the caches lend
  bool lend_regions = true;               // a resident copy has the experts of those slots too
  // RAM for experts that stay there, over the source chosen; absent: what fits, where that source is the resident copy.
  std::optional<uint64_t> resident_budget_bytes = {};
  std::string shared_arena = {};          // file that the arena lies in, if source says arena; empty: memory of its own
  bool direct_reads = false;              // the drive can be read past the system's cache
  uint64_t stage_bytes = 0;               // of RAM, for buffers of such reads
};

struct PlacementInput {
  const ExpertLayout& layout;
  std::span<const PartNeeds> parts;    // all layers, each in one part
  uint64_t ram_bytes = 0;              // that may be filled
  std::span<const ExpertKey> ranking;  // every expert, the hottest first
  PlacementOptions options;
  std::string model;                   // its path, for messages
  std::string split = {};              // why the layers are shared out as they are; empty: there is nothing to say
};

// Where an expert is when no loan is out. Every expert is in the files too.
enum class Tier : uint8_t { kDevice, kRam, kFile };

struct PartPlacement {
  SlotPlan slots;
  CacheBytes cache;       // of the slots and beside them
  RingPlan ring;          // that prompts stream through; empty: none
  bool borrowed = false;  // the ring lies in slots that are lent
  int64_t lent_slots = 0;
  int64_t lent_in_ram = 0;  // of those, whose experts RAM has too

  // Of the device, the part's needs not counted.
  uint64_t device_bytes() const { return cache.device + (borrowed ? 0 : ring.bytes()); }
};

struct PlacementPlan {
  std::vector<PartPlacement> parts;
  SourceKind source = SourceKind::kMapped;
  SourceKind below = SourceKind::kMapped;  // a resident copy's fallback: mapped or direct
  ResidentPlan resident;                   // empty for other sources
  uint64_t needs_bytes = 0;                // of RAM, for everything but experts and stage buffers
  uint64_t experts_bytes = 0;              // of RAM: the arena or the resident copy
  uint64_t stage_bytes = 0;                // of RAM
  uint64_t pinned_bytes = 0;               // of all that RAM, page-locked for devices where the system allows it
  std::vector<std::vector<Tier>> tiers;    // [layers][experts]
  std::vector<std::string> reasons;        // why, a sentence each
  std::string warning;                     // of those, what will be slow; may be empty

  uint64_t ram_bytes() const { return needs_bytes + experts_bytes + stage_bytes; }
  Tier tier(ExpertKey key) const {
    return tiers[static_cast<size_t>(key.layer)][static_cast<size_t>(key.expert)];
  }
};

// kNoMemory when something does not fit that has to: it names what, where, both sizes and the flags to change.
// kBadInput for a ranking that cannot be.
Result<PlacementPlan> plan_placement(const PlacementInput& input);

// A table of what takes which memory, and below it the reasons, a line each.
std::string placement_text(const PlacementInput& input, const PlacementPlan& plan);

}  // namespace strata::experts
