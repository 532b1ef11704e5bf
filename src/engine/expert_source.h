// Opens the source of experts that a placement names.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "engine/config.h"
#include "experts/placement.h"
#include "experts/sources/resident.h"
#include "gguf/gguf.h"

namespace strata::engine {

// What the source is opened from; all but the plan and the threads outlives it.
struct ExpertSourceSpec {
  const gguf::Model& model;
  const experts::ExpertLayout& layout;
  const EngineConfig& config;
  const experts::PlacementPlan& plan;
  int64_t n_used;          // experts of a layer that a row uses
  device::Device& host;    // whose memory holds the arena
  device::Device& device;  // that computes: what it copies out of is allocated there, page-locked if it has memory of
                           // its own
  ThreadPool& threads;     // that load
  Stats& stats;
};

struct OpenedSource {
  std::unique_ptr<experts::ExpertSource> source;
  experts::ResidentSource* resident = nullptr;  // the source, where it is a resident copy
  uint64_t pinned_bytes = 0;                    // of the experts in RAM, page-locked
  std::optional<uint64_t> published_checksum;   // of the experts, where an arena's loader has left it
  std::string warning;                          // of what makes it slow, for people; may be empty
  std::string report;                           // how files are read and what is page-locked, for people; may be empty
};

// Loads what is to be in RAM, or attaches to it. kIo and kNoMemory as the sources say; with config.verify_arena also
// kIo where the bytes of a shared arena have changed.
Result<OpenedSource> open_expert_source(const ExpertSourceSpec& spec);

}  // namespace strata::engine
