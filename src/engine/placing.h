// What a model, a configuration and devices mean for the plan of what lies where: sizes are measured from the metadata;
// nothing is allocated and no tensor is read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/layer_split.h"
#include "device/sim/spec.h"
#include "engine/routing_log.h"
#include "experts/placement.h"
#include "experts/profile.h"
#include "gguf/gguf.h"
#include "model/part.h"

namespace strata::engine {

// Rows of the head computed at once: enough to share each row of the output matrix, few enough that the logits of a
// large vocabulary stay small.
inline constexpr int kMaxOutputs = 32;

struct StepAndState {
  model::StepLimits step;
  model::StateLimits state;
};
StepAndState limits_of(const model::HParams& hp, const EngineConfig& config);

// What a model of the architecture says about itself, as it is to be run.
Result<model::HParams> hparams_of(const gguf::Model& model, const model::ArchInfo& arch, const EngineConfig& config);

// RAM that may be filled: that of the configuration, else what is available but for the headroom.
Result<uint64_t> usable_ram(const EngineConfig& config);

// Buffers for direct reads: while the experts of a layer are in use those of the next can be on their way, and half of
// them all is what look-ahead may take. Parts of a model use experts at the same time.
inline int64_t stage_buffers(int64_t n_used, size_t n_parts) { return 4 * n_used * static_cast<int64_t>(n_parts); }

// A device that computes layers.
struct PlannedDevice {
  std::string name;
  uint64_t budget_bytes = 0;  // of memory of its own
  bool on_host = false;       // its memory is the host's RAM, and the budget that of the plan
  DeviceRates rates = {};
};
DeviceRates rates_of(const device::sim::DeviceSpec& device);

// What --prefill auto comes to once the devices are known.
void settle_chunk(std::span<const PlannedDevice> devices, EngineConfig& config);

// What a part's steps tell of their routing, where there are several parts.
RoutingLogSpec routing_log_spec(const model::HParams& hp, const model::StepLimits& limits, int first, int last,
                                size_t n_parts);

// What experts::plan_placement() is asked. Owns all that input() refers to.
struct PlacementRequest {
  std::string model;
  experts::ExpertLayout layout;
  std::vector<experts::PartNeeds> parts;
  std::string split;  // why the layers are shared out as they are; empty where there is one device
  std::optional<experts::ExpertProfile> profile;  // empty where none was given
  std::vector<experts::ExpertKey> ranking;
  uint64_t ram_bytes = 0;
  experts::PlacementOptions options;

  experts::PlacementInput input() const { return {layout, parts, ram_bytes, ranking, options, model, split}; }
};

// What the request is made from.
struct PlacingSpec {
  const gguf::Model& model;
  const model::ArchInfo& arch;
  const model::HParams& hp;
  const EngineConfig& config;
  std::span<const PlannedDevice> devices;  // at least one; several share the layers (config.layer_split)
  bool peers = true;                       // all of them reach each other's memory
  double cpu_bytes_per_s = kTypicalCpuBytesPerS;
  uint64_t ram_bytes = 0;
};

// Devices that have no layers have no part. Experts are ranked by the profile that the configuration names, else
// evenly. All errors that the profile, and the metadata and shapes of the model's tensors, can give; kBadInput for a
// split that cannot be.
Result<PlacementRequest> placement_request(const PlacingSpec& spec);

// Where to cut layers of these sizes into runs for devices with these budgets, each run in proportion: the ends of the
// runs, the last one the number of layers. No run is empty; there are as many as devices, or as layers if those are
// fewer. For layers that no split fits into, so that what is said of them tells how much is missing.
std::vector<int> split_layers(std::span<const uint64_t> layer_bytes, std::span<const uint64_t> budgets);

}  // namespace strata::engine
