#include "text/sampler_reference.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"

namespace strata::text::test {
namespace {

void sort_by_probability(Entries& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
}

double largest(const Entries& entries) {
  double max = entries[0].logit;
  for (const Entry& entry : entries) max = std::max(max, entry.logit);
  return max;
}

double entropy_of(const std::vector<double>& p) {
  double h = 0;
  for (const double x : p) h -= x > 0 ? x * std::log(x) : 0;
  return h;
}

Entries top_p(const SamplerParams& params, Entries entries) {
  sort_by_probability(entries);
  const std::vector<double> p = softmax(entries);
  double sum = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    sum += p[i];
    if (sum < static_cast<double>(params.top_p) || static_cast<int32_t>(i) + 1 < params.min_keep) continue;
    entries.resize(i + 1);
  }
  return entries;
}

Entries min_p(const SamplerParams& params, const Entries& entries) {
  const double least = largest(entries) + std::log(static_cast<double>(params.min_p));
  Entries kept;
  for (const Entry& entry : entries) {
    if (entry.logit >= least) kept.push_back(entry);
  }
  if (static_cast<int32_t>(kept.size()) >= params.min_keep) return kept;
  Entries sorted = entries;
  sort_by_probability(sorted);
  sorted.resize(std::min(sorted.size(), static_cast<size_t>(params.min_keep)));
  return sorted;
}

Entries typical(const SamplerParams& params, Entries entries) {
  sort_by_probability(entries);  // so that equally typical ones stand in order of probability
  const std::vector<double> p = softmax(entries);
  const double h = entropy_of(p);
  std::vector<size_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::abs(-std::log(p[a]) - h) < std::abs(-std::log(p[b]) - h); });
  Entries kept;
  double sum = 0;
  for (const size_t i : order) {
    kept.push_back(entries[i]);
    sum += p[i];
    if (sum > static_cast<double>(params.typical_p) && static_cast<int32_t>(kept.size()) >= params.min_keep) break;
  }
  return kept;
}

Entries top_n_sigma(const SamplerParams& params, const Entries& entries) {
  double mean = 0, variance = 0, n = 0;
  for (const Entry& entry : entries) {
    if (std::isfinite(entry.logit)) mean += entry.logit, n += 1;
  }
  mean /= n;
  for (const Entry& entry : entries) {
    if (std::isfinite(entry.logit)) variance += (entry.logit - mean) * (entry.logit - mean) / n;
  }
  const double least = largest(entries) - static_cast<double>(params.top_n_sigma) * std::sqrt(variance);
  Entries kept;
  for (const Entry& entry : entries) {
    if (entry.logit >= least) kept.push_back(entry);
  }
  return kept;
}

Entries xtc(const SamplerParams& params, Entries entries) {
  sort_by_probability(entries);
  const std::vector<double> p = softmax(entries);
  ptrdiff_t last = -1;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] >= static_cast<double>(params.xtc_threshold)) last = static_cast<ptrdiff_t>(i);
  }
  if (last > 0 && static_cast<ptrdiff_t>(entries.size()) - last >= params.min_keep) {
    entries.erase(entries.begin(), entries.begin() + last);
  }
  return entries;
}

Entries temperature(const SamplerParams& params, Entries entries) {
  double temp = static_cast<double>(params.temp);
  if (temp > 0 && params.dynatemp_range > 0 && entries.size() > 1) {
    const double range = static_cast<double>(params.dynatemp_range);
    const double share = entropy_of(softmax(entries)) / std::log(static_cast<double>(entries.size()));
    const double low = std::max(0.0, temp - range);
    temp = low + (temp + range - low) * std::pow(share, static_cast<double>(params.dynatemp_exponent));
  }
  if (temp <= 0) {
    sort_by_probability(entries);
    entries.resize(1);
    return entries;
  }
  for (Entry& entry : entries) entry.logit /= temp;
  return entries;
}

void add_chain(const SamplerParams& params, size_t stage, Entries entries, double share,
               std::map<int32_t, double>& out) {
  for (; stage < params.order.size(); ++stage) {
    const StageKind kind = params.order[stage];
    if (!reference_active(kind, params)) continue;
    if (kind == StageKind::kXtc && entries.size() >= 2) {
      const double fires = static_cast<double>(params.xtc_probability);
      add_chain(params, stage + 1, entries, share * (1 - fires), out);
      share *= fires;
    }
    entries = reference_stage(kind, params, std::move(entries));
  }
  const std::vector<double> p = softmax(entries);
  for (size_t i = 0; i < p.size(); ++i) out[entries[i].id] += share * p[i];
}

}  // namespace

Entries entries_of(const std::vector<float>& logits) {
  Entries entries;
  for (const float logit : logits) {
    entries.push_back({static_cast<int32_t>(entries.size()), static_cast<double>(logit)});
  }
  return entries;
}

std::vector<double> softmax(const Entries& entries) {
  const double max = largest(entries);
  std::vector<double> p;
  double total = 0;
  for (const Entry& entry : entries) total += p.emplace_back(std::exp(entry.logit - max));
  for (double& x : p) x /= total;
  return p;
}

bool reference_active(StageKind kind, const SamplerParams& p) {
  switch (kind) {
    case StageKind::kPenalties:
    case StageKind::kDry: return false;
    case StageKind::kTopNSigma: return p.top_n_sigma > 0;
    case StageKind::kTopK: return p.top_k > 0;
    case StageKind::kTypical: return p.typical_p < 1;
    case StageKind::kTopP: return p.top_p < 1;
    case StageKind::kMinP: return p.min_p > 0;
    case StageKind::kXtc: return p.xtc_probability > 0 && p.xtc_threshold <= 0.5f;
    case StageKind::kTemperature: return true;
  }
  return false;
}

Entries reference_stage(StageKind kind, const SamplerParams& params, Entries entries) {
  switch (kind) {
    case StageKind::kTopNSigma: return top_n_sigma(params, entries);
    case StageKind::kTopK:
      sort_by_probability(entries);
      entries.resize(std::min(entries.size(), static_cast<size_t>(params.top_k)));
      return entries;
    case StageKind::kTypical: return typical(params, std::move(entries));
    case StageKind::kTopP: return top_p(params, std::move(entries));
    case StageKind::kMinP: return min_p(params, entries);
    case StageKind::kXtc: return xtc(params, std::move(entries));
    case StageKind::kTemperature: return temperature(params, std::move(entries));
    case StageKind::kPenalties:
    case StageKind::kDry: break;
  }
  ADD_FAILURE() << "no reference for this stage";
  return entries;
}

std::map<int32_t, double> reference_probabilities(const std::vector<float>& logits, const SamplerParams& params) {
  std::map<int32_t, double> out;
  add_chain(params, 0, entries_of(logits), 1, out);
  return out;
}

std::vector<float> random_logits(size_t n, uint64_t seed, double scale) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = static_cast<float>(scale * random.normal());
  return logits;
}

void expect_distribution(const std::map<int32_t, double>& exact, const std::map<int32_t, int>& counts) {
  int n_draws = 0;
  for (const auto& [id, count] : counts) {
    n_draws += count;
    EXPECT_TRUE(exact.contains(id)) << id << ": cut, but drawn " << count;
  }
  double chi_square = 0, pooled_expected = 0, pooled_count = 0;
  int n_cells = 0;
  const auto add_cell = [&](double expected, double count) {
    chi_square += (count - expected) * (count - expected) / expected;
    ++n_cells;
  };
  for (const auto& [id, p] : exact) {
    const auto found = counts.find(id);
    const double expected = p * n_draws, count = found == counts.end() ? 0 : found->second;
    if (expected >= 5) {
      add_cell(expected, count);
    } else {
      pooled_expected += expected;
      pooled_count += count;
    }
  }
  if (pooled_expected >= 5) add_cell(pooled_expected, pooled_count);
  const double freedom = n_cells - 1;
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom) + 1e-9);
}

}  // namespace strata::text::test
