// What steps tell about their routing, and whose routing it is.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "device/view.h"
#include "experts/expert.h"

namespace strata::experts {

// Hears which experts the rows of steps are sent to.
class RoutingObserver {
 public:
  virtual ~RoutingObserver() = default;
  // ids [live rows][k] of one layer, in memory that the host can read. Called once for each MoE layer of a step, lower
  // layers first, by the thread that runs the step's host tasks or the one that waits for its end; the step does not
  // end before it returns. A step that fails may end between two layers. Must not block.
  virtual void routed(int32_t layer, const device::In<int32_t>& ids) = 0;
};

// Tells several others. Changed between steps only; those that are added outlive it or are removed.
class RoutingObservers final : public RoutingObserver {
 public:
  void add(RoutingObserver& observer) { all_.push_back(&observer); }
  void remove(RoutingObserver& observer) { std::erase(all_, &observer); }
  void routed(int32_t layer, const device::In<int32_t>& ids) override {
    for (RoutingObserver* observer : all_) observer->routed(layer, ids);
  }

 private:
  std::vector<RoutingObserver*> all_;
};

// The model that a profile or a recording is about. Files of the same model in other types have the same.
struct RoutedModel {
  std::string name;  // printable
  int32_t n_layers = 0;
  int32_t n_experts = 0;  // of the layer that has most

  static RoutedModel of(const gguf::Model& model, const ExpertLayout& layout);

  bool operator==(const RoutedModel&) const = default;
  bool has(ExpertKey key) const {
    return key.layer >= 0 && key.layer < n_layers && key.expert >= 0 && key.expert < n_experts;
  }
  // Where a key's element is in an array [n_layers][n_experts].
  size_t index(ExpertKey key) const {
    return static_cast<size_t>(key.layer) * static_cast<size_t>(n_experts) + static_cast<size_t>(key.expert);
  }
  size_t n_keys() const { return static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts); }
  // For messages.
  std::string text() const;
};
// Limits of what files may say; beyond them they are refused.
inline constexpr int64_t kMaxRoutedLayers = 4096;
inline constexpr int64_t kMaxRoutedExperts = 65535;
inline constexpr int64_t kMaxRoutedKeys = 1 << 20;
inline constexpr size_t kMaxRoutedNameBytes = 512;

// kBadInput, for a file (`origin`) that says what its model looks like.
Status check_routed_model(const RoutedModel& model, const std::string& origin);
// kBadInput when what `origin` is about is another model than the one wanted.
Status check_same_model(const RoutedModel& found, const RoutedModel& wanted, const std::string& origin);

}  // namespace strata::experts
