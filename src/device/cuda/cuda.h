// Devices of CUDA, for whoever opens them: free of CUDA's own headers, and there in builds without CUDA too.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "device/device.h"

namespace strata::device::cuda {

// A CUDA device. Its budget is what the driver says is free once the context and all kernels are loaded, less a reserve
// for what the driver takes late (workspaces and graphs among it).
class Gpu : public Device {
 public:
  // Host memory of the device that is handed out.
  virtual uint64_t host_bytes() const = 0;
  // Times that it took memory, of its own or page-locked, since it was opened.
  virtual uint64_t n_allocations() const = 0;
  // What its memory yields at most; 0 where the driver does not say.
  virtual double memory_bytes_per_second() const = 0;
  // Measures what a node of a replayed graph takes that does nothing, behind others of that kind.
  virtual Result<double> measure_node_seconds() = 0;
};

struct GpuOptions {
  // Of the device's memory, that the program may use in all; absent: what is free.
  std::optional<uint64_t> limit_bytes = std::nullopt;
  uint64_t reserve_bytes = 700 * kMiB;  // of those, that stay free
  bool deterministic = false;           // operations give the same bits whatever rows stand beside a row
  bool peer_copies = true;     // to and from devices that it reaches; else it reaches none but itself
  // Streams and host signal each other by operations of the driver; else, or where it has none, by host functions.
  bool stream_memory_operations = true;
};

// Whether a device setting means CUDA devices: "cuda", "cuda:0", "cuda:0,1".
inline bool is_cuda_spec(std::string_view text) { return text == "cuda" || text.starts_with("cuda:"); }

// The numbers of the devices, which may come more than once; "cuda" is device 0. kBadInput says what is wrong.
Result<std::vector<int>> parse_cuda_spec(std::string_view text);

// kUnsupported: this build has no CUDA, or the machine no driver that is new enough, or no such device. kNoMemory: the
// device has no memory left. The messages name --device, --vram-budget-gib and --vram-reserve-mib.
Result<std::unique_ptr<Gpu>> open_gpu(int ordinal, const GpuOptions& options);

}  // namespace strata::device::cuda
