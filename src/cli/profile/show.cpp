// A profile for people: how much of the use few experts take, in all and layer by layer, and which they are.
#include <algorithm>

#include "base/format.h"
#include "cli/profile/profiling.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using experts::ExpertKey;
using experts::ExpertProfile;

constexpr int kShares[] = {5, 10, 25, 50};  // percent of the experts
constexpr size_t kListed = 16;

std::vector<ExpertKey> most_used(const ExpertProfile& profile, int32_t first_layer, int32_t last_layer) {
  std::vector<ExpertKey> keys;
  for (int32_t l = first_layer; l < last_layer; l++) {
    for (int32_t e = 0; e < profile.model().n_experts; e++) keys.push_back({l, e});
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [&](ExpertKey a, ExpertKey b) { return profile.uses(a) > profile.uses(b); });
  return keys;
}

// Percent of the uses of `keys`, the most used first, that a share of them takes.
double taken(const ExpertProfile& profile, const std::vector<ExpertKey>& keys, int percent) {
  const size_t n = (keys.size() * static_cast<size_t>(percent) + 99) / 100;
  double all = 0, first = 0;
  for (size_t i = 0; i < keys.size(); i++) {
    all += profile.uses(keys[i]);
    if (i < n) first += profile.uses(keys[i]);
  }
  return all > 0 ? 100 * first / all : 0;
}

std::string line_of(const ExpertProfile& profile, const std::string& label, const std::vector<ExpertKey>& keys) {
  std::string line = format("{:<10}", label);
  for (const int share : kShares) line += format("{:>8.1f} %", taken(profile, keys, share));
  const auto unused = std::count_if(keys.begin(), keys.end(), [&](ExpertKey key) { return profile.uses(key) == 0; });
  return line + format("{:>10}\n", unused);
}

}  // namespace

Status profile_show(const Settings& settings) {
  ASSIGN_OR_RETURN(const ExpertProfile profile, read_uses(profile_files(settings)[0]));
  const int32_t n_layers = profile.model().n_layers;
  const std::vector<ExpertKey> all = most_used(profile, 0, n_layers);
  std::string text = format("{}\n{} uses\n\nuses that the most used experts take\n{:<10}", profile.model().text(),
                            profile.total(), "");
  for (const int share : kShares) text += format("{:>10}", format("{} %", share));
  text += format("{:>10}\n", "unused");
  text += line_of(profile, "all", all);
  for (int32_t l = 0; l < n_layers; l++) text += line_of(profile, format("layer {}", l), most_used(profile, l, l + 1));
  text += "\nmost used   layer  expert      uses\n";
  for (size_t i = 0; i < std::min(kListed, all.size()) && profile.uses(all[i]) > 0; i++) {
    text += format("{:>17}{:>8}{:>10}\n", all[i].layer, all[i].expert, profile.uses(all[i]));
  }
  return write_stdout(text);
}

}  // namespace strata::cli
