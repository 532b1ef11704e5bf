#include "engine/soak/checks.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/format.h"
#include "support/memory_growth.h"

namespace strata::test {
namespace {

// Of the process's memory. An hour on a simulated device has some 10,000 requests, and stays below 0.3 %. If each left
// no more than the ids of its prompt behind, that would be 15 MB, of 115.
constexpr double kMostGrowth = 0.01;

std::span<const SoakSample> judged(const SoakReport& report) {
  const std::span<const SoakSample> all = report.samples;
  return all.subspan(all.size() / 3);
}

// What the process's memory grew by from a third of the run on, as a share.
double growth(const SoakReport& report) {
  std::vector<MemorySample> samples;
  for (const SoakSample& sample : judged(report)) {
    samples.push_back({sample.seconds / 60, static_cast<double>(sample.ram_bytes)});
  }
  return samples.size() < 2 ? 0 : growth_per_minute(samples, 0) * (samples.back().minutes - samples.front().minutes);
}

// In the second third of the run and in the last one. What other programs take for a while beside it does not count.
std::pair<uint64_t, uint64_t> least_device_bytes(const SoakReport& report) {
  const auto least = [](std::span<const SoakSample> samples) {
    uint64_t bytes = UINT64_MAX;
    for (const SoakSample& sample : samples) bytes = std::min(bytes, sample.device_bytes);
    return bytes;
  };
  const std::span<const SoakSample> all = judged(report);
  return {least(all.first(all.size() / 2)), least(all.subspan(all.size() / 2))};
}

double mib(uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); }

}  // namespace

std::vector<std::string> soak_faults(const SoakReport& report, const Stats& stats, const SoakDemands& demands) {
  std::vector<std::string> faults = report.wrong;
  const auto expect = [&](bool holds, std::string otherwise) {
    if (!holds) faults.push_back(std::move(otherwise));
  };
  expect(report.prompts > 0, "no prompt was answered");
  expect(report.turns > 0, "no turn of a chat was answered");
  expect(report.kept_tokens > 0, "no turn went on from what its chat held");
  expect(report.cancelled_prompts > 0, "no request was cancelled in its prompt");
  expect(report.cancelled_answers > 0, "no request was cancelled in its answer");
  expect(report.steps_together > 0, "no two requests ran at a time");
  for (const Counter counter : {Counter::kCacheHits, Counter::kCacheMisses, Counter::kCacheLoans, Counter::kCacheSwaps,
                                Counter::kStreamedExperts, Counter::kGraphReplays}) {
    expect(stats.get(counter) > 0, format("{} stayed at 0", counter_name(counter)));
  }
  expect(!demands.cpu || stats.get(Counter::kExpertsComputed) > 0, "the CPU computed no experts");
  for (const Counter counter : {Counter::kKvBlocksUsed, Counter::kCacheLentSlots, Counter::kDeviceAllocations}) {
    expect(stats.get(counter) == 0, format("{} is {} at the end", counter_name(counter), stats.get(counter)));
  }
  if (!demands.memory) return faults;
  expect(growth(report) <= kMostGrowth,
         format("the process grew by {:.2f} % in the last two thirds of its time", 100 * growth(report)));
  const auto [before, after] = least_device_bytes(report);
  expect(after <= before, format("the device's memory in use is at least {} in the last third of the time, and was {}",
                                 format_bytes(after), format_bytes(before)));
  return faults;
}

std::string soak_text(const SoakReport& report, const Stats& stats) {
  std::string text = format("{} prompts and {} turns as alone, {} prompts and {} answers cancelled, {} steps of two; ",
                            report.prompts, report.turns, report.cancelled_prompts, report.cancelled_answers,
                            report.steps_together);
  for (const Counter counter : {Counter::kTokensForward, Counter::kCacheLoans, Counter::kCacheSwaps,
                                Counter::kCacheHits, Counter::kCacheMisses, Counter::kStreamedExperts,
                                Counter::kLinkedExperts, Counter::kExpertsComputed}) {
    text += format("{} {}, ", counter_name(counter), stats.get(counter));
  }
  return text + format("process {:+.3f} % from a third on", 100 * growth(report));
}

std::string soak_text(const SoakSample& sample) {
  return format("{:.1f} s, {} requests: process {:.2f} MiB, device {:.2f} MiB", sample.seconds, sample.requests,
                mib(sample.ram_bytes), mib(sample.device_bytes));
}

}  // namespace strata::test
