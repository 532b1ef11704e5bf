// How many of a recording's uses caches of several sizes would have held, by policy.
#include <algorithm>

#include "base/format.h"
#include "cli/bench/lists.h"
#include "cli/profile/profiling.h"
#include "cli/streams.h"
#include "experts/replay.h"

namespace strata::cli {
namespace {

using experts::ExpertProfile;
using experts::RoutingReader;

constexpr int kShares[] = {5, 10, 25, 50, 75};  // percent of all experts

// Layers that tell of no expert have none.
Result<std::vector<int32_t>> experts_of_layers(const std::string& path) {
  ASSIGN_OR_RETURN(const auto reader, RoutingReader::open(real_file_system(), path));
  std::vector<int32_t> n_experts(static_cast<size_t>(reader->model().n_layers), reader->model().n_experts);
  experts::RoutingBlock block;
  ASSIGN_OR_RETURN(const bool any, reader->next(block));
  for (size_t l = 0; any && l < n_experts.size(); l++) {
    if (block.row(static_cast<int32_t>(l), 0)[0] == experts::kNoExpert) n_experts[l] = 0;
  }
  return n_experts;
}

Result<std::vector<int64_t>> cache_sizes(const Settings& settings, int64_t n_experts) {
  std::vector<int64_t> sizes;
  if (!settings.text(Key::kSlots).empty()) {
    ASSIGN_OR_RETURN(sizes, parse_counts(settings, Key::kSlots, {0, experts::kMaxRoutedKeys}));
    return sizes;
  }
  for (const int share : kShares) sizes.push_back((n_experts * share + 50) / 100);
  return sizes;
}

Result<ExpertProfile> profile_of(const Settings& settings, const RoutingReader& recording) {
  ExpertProfile profile(recording.model());
  const std::string& path = settings.text(Key::kExpertProfile);
  if (path.empty()) return profile;
  ASSIGN_OR_RETURN(const ExpertProfile given, read_uses(path));
  RETURN_IF_ERROR(profile.merge(given, path));
  return profile;
}

std::string table(std::span<const int64_t> sizes, std::span<const std::unique_ptr<experts::ReplayedCache>> caches,
                  int64_t n_experts, int64_t rows) {
  const auto policies = experts::replay_policies();
  std::string text = format("{:>8}{:>8}", "slots", "share");
  for (const experts::ReplayPolicy& policy : policies) text += format("{:>12}{:>11}", policy.name, "moves/row");
  text += '\n';
  for (size_t s = 0; s < sizes.size(); s++) {
    text += format("{:>8}{:>6.0f} %", sizes[s], 100.0 * static_cast<double>(sizes[s]) / static_cast<double>(n_experts));
    for (size_t p = 0; p < policies.size(); p++) {
      const experts::ReplayedCache& cache = *caches[s * policies.size() + p];
      text += format("{:>10.1f} %{:>11.2f}", 100 * cache.hit_rate(),
                     static_cast<double>(cache.moves()) / static_cast<double>(rows));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

Status profile_replay(const Settings& settings) {
  const std::string path = profile_files(settings)[0];
  ASSIGN_OR_RETURN(const auto recording, RoutingReader::open(real_file_system(), path));
  ASSIGN_OR_RETURN(const std::vector<int32_t> n_experts, experts_of_layers(path));
  ASSIGN_OR_RETURN(const ExpertProfile profile, profile_of(settings, *recording));
  const std::vector<experts::ExpertKey> ranking = profile.ranking(n_experts);
  const auto n_all = static_cast<int64_t>(ranking.size());
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, cache_sizes(settings, n_all));
  std::vector<std::unique_ptr<experts::ReplayedCache>> caches;
  for (const int64_t size : sizes) {
    for (const experts::ReplayPolicy& policy : experts::replay_policies()) {
      caches.push_back(policy.make(profile, ranking, recording->n_used(),
                                   {.n_slots = size, .adapt_every = settings.integer(Key::kAdaptEvery)}));
    }
  }
  ASSIGN_OR_RETURN(const int64_t rows, experts::replay(*recording, caches));
  if (rows == 0) return Error{ErrorCode::kBadInput, format("{}: no tokens are recorded in it", path_text(path))};
  return write_stdout(format("{}, {} used, {} tokens\n\n", recording->model().text(), recording->n_used(), rows) +
                      table(sizes, caches, n_all, rows));
}

}  // namespace strata::cli
