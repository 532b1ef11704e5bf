// Which experts the resident copy in RAM keeps, and where in it: arithmetic only, nothing is allocated or read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/expert.h"

namespace strata::experts {

// The experts of a layer as the plan of the copy counts them.
struct LayerBlobs {
  int32_t n_experts = 0;    // 0: the layer has none
  uint64_t blob_bytes = 0;  // of each
};
std::vector<LayerBlobs> blobs_of(const ExpertLayout& layout);

// The experts of one device's cache in the order of its slots, the lowest address first.
using CachedKeys = std::vector<ExpertKey>;

// An expert of the copy.
struct ResidentBlob {
  ExpertKey key;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  uint64_t end() const { return offset + bytes; }
};

// The copy's experts one behind the other, without gaps: first those that no device's cache holds, layer-major, then
// what was kept of lend regions. Calls that fail leave the plan as it was.
class ResidentPlan {
 public:
  ResidentPlan() = default;

  // Every expert that none of `caches` holds. kNoMemory when they are more than `budget_bytes`. kBadInput for an expert
  // that the model does not have, that two caches hold or one holds twice, for blobs of no bytes, and for sizes whose
  // sum no machine can address.
  static Result<ResidentPlan> complement(std::span<const LayerBlobs> layers, std::span<const CachedKeys> caches,
                                         uint64_t budget_bytes);

  // As much of the complement as the budget has room for, the first of `ranking` first. An expert that does not fit is
  // passed over, and smaller ones behind it may still go in; one that is not ranked is left out. Also kBadInput for a
  // ranking that names an expert twice, or one that the model does not have.
  static Result<ResidentPlan> hottest(std::span<const LayerBlobs> layers, std::span<const CachedKeys> caches,
                                      std::span<const ExpertKey> ranking, uint64_t budget_bytes);

  // Appends the experts of a lend region in the order given, which is the one in which loans take them: from the
  // highest slot downward. Stops at the first that does not fit; passes over those that the copy has already. Returns
  // how many of the region's experts the copy has now, counted from its beginning to the first that is missing.
  // kBadInput for an expert that the model does not have.
  Result<int64_t> keep_lent(std::span<const ExpertKey> region);

  const std::vector<ResidentBlob>& blobs() const { return blobs_; }
  uint64_t bytes() const { return blobs_.empty() ? 0 : blobs_.back().end(); }
  uint64_t budget_bytes() const { return budget_bytes_; }
  // Index into blobs() of an expert that the model has, or -1.
  int64_t find(ExpertKey key) const;
  bool has(ExpertKey key) const { return find(key) >= 0; }

 private:
  static Result<ResidentPlan> empty_plan(std::span<const LayerBlobs> layers, uint64_t budget_bytes);
  Status check_key(ExpertKey key, const char* list) const;
  // Whether each expert lies in a cache, in the order of index(); refuses caches that cannot be.
  Result<std::vector<bool>> cached(std::span<const CachedKeys> caches) const;
  size_t index(ExpertKey key) const {
    return first_[static_cast<size_t>(key.layer)] + static_cast<size_t>(key.expert);
  }
  uint64_t blob_bytes(ExpertKey key) const { return layers_[static_cast<size_t>(key.layer)].blob_bytes; }
  bool fits(ExpertKey key) const { return blob_bytes(key) <= budget_bytes_ - bytes(); }
  void append(ExpertKey key);

  std::vector<LayerBlobs> layers_;
  std::vector<size_t> first_;    // [layers] experts of the layers before
  std::vector<int64_t> places_;  // [all experts] index into blobs_, or -1
  std::vector<ResidentBlob> blobs_;
  uint64_t budget_bytes_ = 0;
};

}  // namespace strata::experts
