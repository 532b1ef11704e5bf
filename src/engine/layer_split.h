// Which layers each device computes: the split that answers a typical request soonest, as far as the rates of devices,
// links and CPU tell. Arithmetic only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace strata::engine {

// What a device moves and computes in a second. Defaults are those of a mid-range device.
struct DeviceRates {
  double memory_bytes_per_s = 500e9;
  double link_bytes_per_s = 16e9;  // from the host
  double flops_per_s = 10e12;
};
inline constexpr double kTypicalCpuBytesPerS = 50e9;

// A layer as a split counts it.
struct SplitLayer {
  uint64_t weights_bytes = 0;  // all but experts
  uint64_t state_bytes = 0;
  uint64_t experts_bytes = 0;  // all of them
  uint64_t used_bytes = 0;     // of the experts that a row uses
};

struct SplitDevice {
  uint64_t budget_bytes = 0;
  uint64_t fixed_bytes = 0;     // of step buffers and the like, whichever layers it has
  uint64_t received_bytes = 0;  // of what it is handed, unless it has the first layer
  uint64_t head_bytes = 0;      // of buffers of the head, if it has the last layer
  DeviceRates rates;
};

struct SplitInput {
  std::span<const SplitLayer> layers;
  std::span<const SplitDevice> devices;
  uint64_t first_bytes = 0;  // that whoever has the first layer holds too: the embedding
  uint64_t last_bytes = 0;   // that whoever has the last layer holds too: the head
  double cpu_bytes_per_s = kTypicalCpuBytesPerS;
  int64_t chunk_rows = 512;  // of a prompt, computed together
  bool streams = true;       // chunks stream the experts that a device's cache lacks; else the CPU computes those
};

// What a split is predicted to take.
struct SplitTimes {
  double chunk_s = 0;  // of a prompt, in the part that takes longest: parts work on several chunks at once
  double token_s = 0;  // of an answer, through all parts
};

struct LayerSplit {
  std::vector<int> counts;  // [devices] layers of each; 0: it is left out
  SplitTimes times;
};

// The split into runs of layers, in the order of the devices, that answers a prompt of kSplitChunks chunks with
// kSplitTokens tokens soonest; devices that would not make that faster are left out. Nothing when no split fits the
// devices' memory.
std::optional<LayerSplit> choose_split(const SplitInput& input);
inline constexpr int kSplitChunks = 8;
inline constexpr int kSplitTokens = 256;

// The layers of each device as `--layer-split` says: kBadInput when it has not as many numbers as there are devices,
// when they are not the model's layers in all, or a device would have none.
Status check_split(std::span<const int> counts, size_t n_devices, int n_layers);
// Of `5,3`. kBadInput for what is no list of numbers of layers.
Result<std::vector<int>> parse_split(const std::string& text);

// `5,0,3`, for people.
std::string split_text(std::span<const int> counts);

}  // namespace strata::engine
