// How often each expert of a model is used, and the ranking that follows: what a device's cache is filled from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "experts/routing.h"

namespace strata::experts {

class ExpertProfile {
 public:
  explicit ExpertProfile(RoutedModel model) : model_(std::move(model)), uses_(model_.n_keys()) {}

  const RoutedModel& model() const { return model_; }
  // (row, expert) pairs that were sent to the expert.
  double uses(ExpertKey key) const { return uses_[model_.index(key)]; }
  void add(ExpertKey key, double n) { uses_[model_.index(key)] += n; }
  // Of all experts, or of those of a layer.
  double total() const;
  double layer_total(int32_t layer) const;
  // kBadInput, naming `origin`, when the other one is about another model.
  Status merge(const ExpertProfile& other, const std::string& origin);

  // All experts, the most used first, with a floor for each layer: of any number of experts from the front at least
  // half are dealt out evenly, to the most used of every layer, and the others go to the most used of all. Experts
  // used alike, or not at all, come in the order of their numbers. n_experts [n_layers] of each layer.
  std::vector<ExpertKey> ranking(std::span<const int32_t> n_experts) const;
  // The same for the model's layout.
  std::vector<ExpertKey> ranking(const ExpertLayout& layout) const;

  // The file: lines of text (docs/FORMATS.md). Whatever it says, reading it neither crashes nor allocates more than the
  // file's size and 8 MiB; kBadInput names the line.
  std::string to_text() const;
  static Result<ExpertProfile> parse(std::string_view text, const std::string& origin);
  static Result<ExpertProfile> load(FileSystem& files, const std::string& path);
  // Appears under its name when it is complete.
  Status save(const std::string& path) const;

 private:
  RoutedModel model_;
  std::vector<double> uses_;  // [n_layers][n_experts]
};
inline constexpr uint64_t kMaxProfileBytes = 64u << 20;
// The first line of the file.
inline constexpr std::string_view kProfileTitle = "strata expert profile 1";

// Counts the experts of the steps it hears of into a profile.
class ProfileCounter final : public RoutingObserver {
 public:
  explicit ProfileCounter(ExpertProfile profile) : profile_(std::move(profile)) {}
  void routed(int32_t layer, const device::In<int32_t>& ids) override;
  // Between steps.
  const ExpertProfile& profile() const { return profile_; }

 private:
  ExpertProfile profile_;
};

}  // namespace strata::experts
