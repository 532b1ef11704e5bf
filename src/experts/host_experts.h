// Computes experts that lie in host memory, on the CPU pool, straight from their leases.
#pragma once

#include <memory>
#include <vector>

#include "device/host/expert_ffn.h"
#include "experts/dispatch.h"

namespace strata::experts {

// Used by one thread at a time. Its memory is allocated once; computing allocates nothing.
class HostExperts {
 public:
  // Takes bytes_needed() of host memory of the spec's device.
  static Result<std::unique_ptr<HostExperts>> create(const DispatchSpec& spec);
  static uint64_t bytes_needed(const DispatchLimits& limits);

  struct Step {
    int32_t layer;
    ExpertFormula formula;
    int64_t n_rows;             // live rows
    device::View<int32_t> ids;  // [rows][k]
    device::View<float> x;      // [rows][dim]
    device::View<float> y;      // [rows * k][dim]
    // [n_experts] -1 for experts to compute: pairs of others are left out. null: no pair is.
    const int32_t* slot_of;
  };
  // y[r*k + j] = expert ids[r][j] of x[r] for the pairs that are not left out. All views lie in memory that the host
  // can read. Fails when bytes of experts cannot be read or trusted; y is then unspecified.
  Status compute(const Step& step);

 private:
  class LeasePlaces;
  using PairGroups = device::host::PairGroups;
  explicit HostExperts(const DispatchSpec& spec)
      : compute_(spec.compute),
        source_(spec.source),
        layout_(spec.layout),
        limits_(spec.limits),
        lease_limit_(spec.lease_limit()),
        stats_(spec.stats) {}
  Status allocate(device::Device& device);
  // `keys` are the experts of `groups`, in their order.
  Status fetch_and_compute(const Step& step, const PairGroups& groups, std::span<const ExpertKey> keys);
  // The experts keys_, with at most so many leases at once that the source need not grow.
  Status compute_in_rounds(const Step& step, int64_t lease_limit);
  void begin_round();
  void add_to_round(ExpertKey key);
  // The pairs of the experts that were added to the round.
  PairGroups round_groups(const Step& step);
  // Computes the groups, one lease each, and releases the leases.
  void compute_leased(const Step& step, const PairGroups& groups, std::span<Lease> leases);

  device::host::Compute& compute_;
  ExpertSource& source_;
  const ExpertLayout& layout_;
  DispatchLimits limits_;
  int64_t lease_limit_;
  Stats& stats_;
  std::unique_ptr<device::HostBuffer> inputs_;  // [pairs][max(dim, ffn)], in sorted order
  std::unique_ptr<device::HostBuffer> hidden_;  // [pairs][ffn], in sorted order
  std::vector<int32_t> group_ints_;
  std::vector<ExpertKey> keys_, missing_;
  std::vector<int32_t> in_round_;  // [n_experts] 0: computed in this round, -1: not
  std::vector<Lease> leases_;
};

}  // namespace strata::experts
