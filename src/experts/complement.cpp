#include "experts/complement.h"

#include "base/bytes.h"
#include "base/format.h"

namespace strata::experts {
namespace {

// Sums up to here can be addressed, and added to without overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

template <class Visit>
void for_each_key(std::span<const LayerBlobs> layers, const Visit& visit) {
  for (size_t l = 0; l < layers.size(); l++) {
    for (int32_t e = 0; e < layers[l].n_experts; e++) visit(ExpertKey{static_cast<int32_t>(l), e});
  }
}

Error bad_layer(size_t layer, const LayerBlobs& blobs) {
  return {ErrorCode::kBadInput, format("layer {} has {} experts of {} bytes each, which cannot be copied to RAM", layer,
                                       blobs.n_experts, blobs.blob_bytes)};
}

}  // namespace

std::vector<LayerBlobs> blobs_of(const ExpertLayout& layout) {
  std::vector<LayerBlobs> layers;
  for (const LayerLayout& layer : layout.layers()) layers.push_back({layer.n_experts, layer.blob_bytes()});
  return layers;
}

Result<ResidentPlan> ResidentPlan::empty_plan(std::span<const LayerBlobs> layers, uint64_t budget_bytes) {
  ResidentPlan plan;
  uint64_t total = 0;
  size_t n_experts = 0;
  for (size_t l = 0; l < layers.size(); l++) {
    const LayerBlobs& layer = layers[l];
    if (layer.n_experts < 0 || (layer.n_experts > 0 && layer.blob_bytes == 0)) return bad_layer(l, layer);
    const auto bytes = checked_mul(static_cast<uint64_t>(layer.n_experts), layer.blob_bytes);
    if (!bytes || *bytes > kMaxBytes - total) return bad_layer(l, layer);
    total += *bytes;
    plan.first_.push_back(n_experts);
    n_experts += static_cast<size_t>(layer.n_experts);
  }
  plan.layers_.assign(layers.begin(), layers.end());
  plan.places_.assign(n_experts, -1);
  plan.budget_bytes_ = budget_bytes;
  return plan;
}

Status ResidentPlan::check_key(ExpertKey key, const char* list) const {
  const bool has_layer = key.layer >= 0 && static_cast<size_t>(key.layer) < layers_.size();
  if (has_layer && key.expert >= 0 && key.expert < layers_[static_cast<size_t>(key.layer)].n_experts) return {};
  return Error{ErrorCode::kBadInput,
               format("{} names expert {} of layer {}, which the model does not have", list, key.expert, key.layer)};
}

Result<std::vector<bool>> ResidentPlan::cached(std::span<const CachedKeys> caches) const {
  std::vector<bool> held(places_.size());
  for (const CachedKeys& cache : caches) {
    for (const ExpertKey& key : cache) {
      RETURN_IF_ERROR(check_key(key, "an expert cache"));
      if (held[index(key)]) {
        return Error{ErrorCode::kBadInput,
                     format("expert {} of layer {} lies in two places of the expert caches", key.expert, key.layer)};
      }
      held[index(key)] = true;
    }
  }
  return held;
}

Result<ResidentPlan> ResidentPlan::complement(std::span<const LayerBlobs> layers, std::span<const CachedKeys> caches,
                                              uint64_t budget_bytes) {
  ASSIGN_OR_RETURN(ResidentPlan plan, empty_plan(layers, budget_bytes));
  ASSIGN_OR_RETURN(const std::vector<bool> held, plan.cached(caches));
  uint64_t needed = 0;
  for_each_key(layers, [&](ExpertKey key) {
    if (!held[plan.index(key)]) needed += plan.blob_bytes(key);
  });
  if (needed > budget_bytes) {
    return Error{ErrorCode::kNoMemory,
                 format("the experts that no device's cache holds take {}, more than the {} of RAM for them",
                        format_bytes(needed), format_bytes(budget_bytes))};
  }
  for_each_key(layers, [&](ExpertKey key) {
    if (!held[plan.index(key)]) plan.append(key);
  });
  return plan;
}

Result<ResidentPlan> ResidentPlan::hottest(std::span<const LayerBlobs> layers, std::span<const CachedKeys> caches,
                                           std::span<const ExpertKey> ranking, uint64_t budget_bytes) {
  ASSIGN_OR_RETURN(ResidentPlan plan, empty_plan(layers, budget_bytes));
  ASSIGN_OR_RETURN(const std::vector<bool> held, plan.cached(caches));
  std::vector<bool> ranked(held.size()), taken(held.size());
  uint64_t left = budget_bytes;
  for (const ExpertKey& key : ranking) {
    RETURN_IF_ERROR(plan.check_key(key, "the ranking of experts"));
    const size_t i = plan.index(key);
    if (ranked[i]) {
      return Error{ErrorCode::kBadInput,
                   format("the ranking of experts names expert {} of layer {} twice", key.expert, key.layer)};
    }
    ranked[i] = true;
    if (held[i] || plan.blob_bytes(key) > left) continue;
    left -= plan.blob_bytes(key);
    taken[i] = true;
  }
  for_each_key(layers, [&](ExpertKey key) {
    if (taken[plan.index(key)]) plan.append(key);
  });
  return plan;
}

Result<int64_t> ResidentPlan::keep_lent(std::span<const ExpertKey> region) {
  for (const ExpertKey& key : region) RETURN_IF_ERROR(check_key(key, "a lend region"));
  int64_t kept = 0;
  for (const ExpertKey& key : region) {
    if (!has(key)) {
      if (!fits(key)) break;
      append(key);
    }
    kept++;
  }
  return kept;
}

int64_t ResidentPlan::find(ExpertKey key) const {
  DASSERT(check_key(key, "").ok());
  return places_[index(key)];
}

void ResidentPlan::append(ExpertKey key) {
  const uint64_t offset = bytes();
  places_[index(key)] = static_cast<int64_t>(blobs_.size());
  blobs_.push_back({key, offset, blob_bytes(key)});
}

}  // namespace strata::experts
