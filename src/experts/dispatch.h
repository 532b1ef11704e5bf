// Computes the routed experts of a layer where their bytes are and sums their outputs in rank order.
#pragma once

#include <memory>
#include <vector>

#include "base/stats.h"
#include "device/device.h"
#include "device/host/compute.h"
#include "experts/source.h"

namespace strata::experts {

// What one expert computes, as data: h = activation(gate x (+bias), up x (+bias)); out = down h (+bias). Scales of the
// blob multiply a product before its bias.
struct ExpertFormula {
  enum class Activation {
    kSiluMul,        // silu(g) * u
    kSwigluClamped,  // g = min(g, limit), u = clamp(u, +-limit); g * sigmoid(alpha g) * (u + 1)
  };
  Activation activation = Activation::kSiluMul;
  float alpha = 0;
  float limit = 0;
};

struct DispatchLimits {
  int64_t max_rows = 0;  // rows of the largest step
  int64_t n_used = 0;    // experts per row
  int64_t dim = 0;
  int64_t ffn = 0;
};

// One per part of a model. Its memory is allocated once; a step allocates nothing.
class Dispatch {
 public:
  // The source, layout and compute must outlive it. kNoMemory when the row buffers don't fit the device.
  static Result<std::unique_ptr<Dispatch>> create(device::Device& device, device::host::Compute& compute,
                                                  ExpertSource& source, const ExpertLayout& layout,
                                                  const DispatchLimits& limits, Stats& stats);
  virtual ~Dispatch() = default;
  // What create() allocates on the device.
  static uint64_t bytes_needed(const DispatchLimits& limits);

  // Enqueues y[r] += sum over ranks j of weights[r][j] * expert ids[r][j] of x[r], for the live rows. A layer is always
  // given the same memory (its first views decide), so that captured graphs stay valid.
  //   ids int32 [rows][k], weights [rows][k], x [rows][dim], y [rows][dim]
  virtual void run(device::Stream& stream, int32_t layer, const device::In<int32_t>& ids,
                   const device::In<float>& weights, const device::In<float>& x, const device::InOut<float>& y,
                   const device::In<int32_t>& live, const ExpertFormula& formula) = 0;
};

}  // namespace strata::experts
