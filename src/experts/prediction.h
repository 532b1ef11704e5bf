// How fast a placement decodes, from the rates at which the machine moves bytes. Pure.
#pragma once

#include <vector>

#include "experts/placement.h"

namespace strata::experts {

// Bytes a second.
struct MachineRates {
  double ram = 0;               // all computing threads read
  double drive = 0;             // of the model's files
  std::vector<double> devices;  // [parts] a device reads its own memory; of the host's parts it is not looked at
  // [parts] a device reads page-locked memory over its link, while the CPU computes; empty: no device does.
  std::vector<double> links = {};
  double layer_s = 0;  // of a layer on a device, beside the reading of its bytes
  double task_s = 0;   // of a layer more, where the host computes a part of its experts
};

// What products with weights reach on the CPU of the rate at which its threads can read memory: measured on mid-4g (the
// table of docs/PERFORMANCE.md).
inline constexpr double kProductShare = 0.75;
// What steps that read experts from files reach of the rate at which the drive gives scattered pieces to somebody who
// does nothing else: measured in the same way (bench/results/tiers.md).
inline constexpr double kDriveShare = 0.88;
// Seconds of a layer on a GPU beside the reading of its bytes: kernels that wait for one another, and what of a layer
// is too small to fill the device. And more, where the host has a part: the way there and back, and shares of whole
// experts that don't end together. Measured on an H200 (bench/results/hybrid.md).
inline constexpr double kGpuLayerS = 40e-6;
inline constexpr double kHostTaskS = 30e-6;

// What a token computed alone reads.
struct TokenNeeds {
  std::vector<uint64_t> dense_bytes;  // [parts] all but experts
  int64_t n_used = 0;                 // experts of a layer
  // [layers][experts] of a layer's choices, the share that falls on each; empty: all alike.
  std::vector<std::vector<double>> shares;
};

// What a step waits for longest.
enum class Bound { kRam, kDevice, kDrive };
const char* bound_name(Bound bound);

struct DecodePrediction {
  double tokens_per_s = 0;
  Bound bound = Bound::kRam;
  // Of a token, in the mean.
  double device_bytes = 0;
  double ram_bytes = 0;   // read by the CPU, those included that came from files
  double file_bytes = 0;  // read from the drive
  double link_bytes = 0;  // read by devices from RAM, instead of the CPU
  double ram_s = 0;       // of the computing, while no device works longer
  double device_s = 0;    // of the computing, while the CPU does not work longer
  double drive_s = 0;     // beside the computing
};

// Parts compute one after the other; a device computes its cached experts while the CPU computes the others, of which
// it reads its share itself where they are in a page-locked arena; the drive reads beside both. Of mapped files as much
// as RAM has room for beside everything else is taken to be there already. Rates that are used are positive.
DecodePrediction predict_decode(const PlacementInput& input, const PlacementPlan& plan, const TokenNeeds& needs,
                                const MachineRates& rates);

}  // namespace strata::experts
