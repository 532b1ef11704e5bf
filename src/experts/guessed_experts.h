// Reads experts that a device's next layer will probably leave to the host, while the device computes what stands
// between two layers: they are in the caches of the cores then, and the RAM has had something to do meanwhile.
//
//   device: guess the next layer's experts, compute this layer's -> wait -> sum, attention, router -> share out
//   host:   compute ------------------------------------------------/
//                  \-> read the guessed ones ----------------------------------------------------/  compute
//
// The guess comes early, so that the CPU has something to read where the device's part of a layer ends later.
//
// It changes when bytes are read, and no result.
#pragma once

#include <memory>
#include <vector>

#include "experts/dispatch.h"

namespace strata::experts {

// Experts that lie in page-locked memory and in no slot of the cache are read; of those that the device is expected to
// read over the link the CPU reads none.
class GuessedExperts {
 public:
  static Result<std::unique_ptr<GuessedExperts>> create(const DispatchSpec& spec);
  // Of pinned host memory.
  static uint64_t bytes_needed(const DispatchLimits& limits);

  // Queues the guess and the reading, for so many rows; nothing where they are too many for a guess, or where the CPU
  // reads no page-locked expert. Behind the task that computes this layer, in front of whatever waits for it.
  void enqueue(device::Stream& stream, const NextLayer& next, int64_t rows);
  // From the task that computes a layer, before it does: how many rows the step has, and what the CPU computes. A
  // layer of which this was not told (its task failed before) is followed by no reading.
  void layer_begins(int32_t layer, int64_t n_rows, std::span<const int32_t> ids, std::span<const int32_t> places);

 private:
  class Places;
  explicit GuessedExperts(const DispatchSpec& spec) : spec_(spec) {}
  const std::byte* address(ExpertKey key) const;  // null for an expert that is not page-locked
  bool leaves_some(int32_t layer) const;
  device::View<int32_t> ids(int32_t layer, int64_t rows) const;
  const device::HostTask& task(int32_t layer);
  // Of `layer`, behind the one that began last, if that is the one in front.
  void read(int32_t layer, FunctionRef<bool()> awaited);
  // What the guess of a layer leaves to the CPU, into chosen_; the most probable first.
  void choose(int32_t layer);

  DispatchSpec spec_;
  // int32 [2][rows][k]: layers take turns, since one is guessed while that of the layer before may still be read.
  std::unique_ptr<device::HostBuffer> ids_;
  std::vector<std::unique_ptr<device::HostTask>> tasks_;  // [layers]
  std::vector<int32_t> missing_;                          // ascending
  std::vector<int32_t> chosen_;
  std::vector<const std::byte*> addresses_;  // of those
  int32_t chosen_layer_ = -1;
  int32_t begun_layer_ = -1;  // until there was a reading behind it
  int64_t live_rows_ = 0;     // of it
};

}  // namespace strata::experts
