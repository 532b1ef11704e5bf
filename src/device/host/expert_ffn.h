// The feed-forward networks of routed experts on the CPU, wherever the bytes of each expert lie: what the host device's
// ExpertFfn and the dispatch of experts in host memory share, so that a pair has the same bits in both.
#pragma once

#include "base/function_ref.h"
#include "device/host/compute.h"
#include "device/ops/moe.h"

namespace strata::device::host {

// A matrix of an expert at its place. Bias and scale are float32 with any alignment, or null.
struct PlacedMatrix {
  kernels::Matrix w{};
  const std::byte* bias = nullptr;   // [w.rows]
  const std::byte* scale = nullptr;  // [1]
};
struct PlacedExpert {
  PlacedMatrix gate, up, down;
};
PlacedExpert placed(const ExpertBlob& blob, const std::byte* at);

// The (row, rank) pairs of a step sorted by expert, in memory that the caller keeps.
struct PairGroups {
  // `ints` has expert_group_ints(max_pairs, n_experts) elements.
  PairGroups(int32_t* ints, int64_t max_pairs, int64_t n_experts)
      : order(ints), experts(ints + max_pairs), begins(experts + n_experts), next(begins + n_experts + 1) {}

  // Sorts the pairs of the first n_rows rows that go to experts whose slot_of says in a slot (`in_slot`) or in none;
  // all pairs when slot_of is null.
  void sort(const View<int32_t>& ids, int64_t n_rows, int64_t n_experts, const int32_t* slot_of, bool in_slot);

  int64_t n_pairs() const { return begins[n]; }

  int32_t* order;    // [pairs] sorted place -> row * k + rank; in order of rows within an expert
  int32_t* experts;  // [n] experts that have pairs, ascending
  int32_t* begins;   // [n + 1] group g is the sorted places [begins[g], begins[g + 1])
  int32_t* next;     // [n_experts] scratch of the sort
  int64_t n = 0;     // groups
};

// Says where the expert of a group lies.
class ExpertPlaces {
 public:
  virtual PlacedExpert expert(int64_t group) const = 0;

 protected:
  ~ExpertPlaces() = default;
};

struct ExpertBatch {
  const PairGroups& groups;
  const ExpertPlaces& places;
  ExpertFormula formula;
  int64_t k;
  int64_t ffn;
  View<float> x;       // [rows][dim]
  View<float> inputs;  // [pairs][at least max(dim, ffn)], scratch
  View<float> hidden;  // [pairs][ffn], scratch
  View<float> y;       // [rows * k][dim]; only the rows of pairs in groups are written
};
// Each expert is computed for all its pairs at once; weight rows are shared out over the pool.
void compute_experts(Compute& compute, const ExpertBatch& batch);
// Reads n experts, each thread what compute_experts() would have it read of them for few pairs: it then finds them in
// its caches, as far as these hold them. Ends soon once `stop`, which any thread asks, says so. No result changes.
void touch_experts(Compute& compute, const ExpertPlaces& places, int64_t n, FunctionRef<bool()> stop);
// Floats of scratch per thread that compute_experts() takes.
int64_t expert_scratch(int64_t dim, int64_t ffn);

}  // namespace strata::device::host
