// The sampling stages as their definitions read: probabilities of everything, full sorts, doubles, no shortcuts.
#pragma once

#include <map>
#include <vector>

#include "text/sampling/params.h"

namespace strata::text::test {

struct Entry {
  int32_t id;
  double logit;
};
using Entries = std::vector<Entry>;

Entries entries_of(const std::vector<float>& logits);
// Of each entry, in the order of the entries.
std::vector<double> softmax(const Entries& entries);

// What a stage leaves, in order. xtc: as if its number said to cut. Stages that look at accepted tokens are not known.
Entries reference_stage(StageKind kind, const SamplerParams& params, Entries entries);
bool reference_active(StageKind kind, const SamplerParams& params);

// By id, over all of params.order; with xtc the mixture of both cases.
std::map<int32_t, double> reference_probabilities(const std::vector<float>& logits, const SamplerParams& params);

std::vector<float> random_logits(size_t n, uint64_t seed, double scale = 2);
// 5 standard deviations above the mean of chi-square: an accident of about 1 in a million. Cells with less than 5
// expected are pooled. Fails the running test, also for what was drawn with probability 0.
void expect_distribution(const std::map<int32_t, double>& exact, const std::map<int32_t, int>& counts);

}  // namespace strata::text::test
