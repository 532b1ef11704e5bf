#include "base/topology.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <string_view>

#include <sched.h>

#include "base/format.h"
#include "base/small_file.h"

namespace strata {
namespace {

constexpr int kCpusMax = 4096;

std::vector<int> affinity_cpus() {
  const size_t set_bytes = CPU_ALLOC_SIZE(kCpusMax);
  cpu_set_t* set = CPU_ALLOC(kCpusMax);
  std::vector<int> cpus;
  if (set != nullptr && sched_getaffinity(0, set_bytes, set) == 0) {
    for (int cpu = 0; cpu < kCpusMax; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), set_bytes, set)) cpus.push_back(cpu);
    }
  }
  if (set != nullptr) CPU_FREE(set);
  if (cpus.empty()) cpus.push_back(0);  // something runs this
  return cpus;
}

// Identity of the physical core of `cpu`: the lowest of the logical CPUs on it. Itself where /sys doesn't say.
int core_of(int cpu, const std::string& sys_root) {
  // The second name is that of kernels before 5.2.
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    auto text = read_small_file(format("{}/devices/system/cpu/cpu{}/topology/{}", sys_root, cpu, name));
    if (!text.ok()) continue;
    while (text->ends_with('\n')) text->pop_back();
    const auto siblings = parse_cpu_list(*text);
    if (siblings.ok()) return *std::min_element(siblings->begin(), siblings->end());
  }
  return cpu;
}

std::optional<int> parse_cpu(std::string_view text) {
  int cpu = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc() || end != text.data() + text.size() || cpu < 0 || cpu >= kCpusMax) return std::nullopt;
  return cpu;
}

struct CpuRange {
  int first, last;
};

// "7" or "4-7".
std::optional<CpuRange> parse_cpu_range(std::string_view piece) {
  const size_t dash = piece.find('-');
  const auto first = parse_cpu(piece.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_cpu(piece.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return CpuRange{*first, *last};
}

}  // namespace

Topology read_topology(const std::string& sys_root) {
  Topology topology;
  topology.cpus = affinity_cpus();
  std::set<int> seen;
  for (const int cpu : topology.cpus) {
    if (seen.insert(core_of(cpu, sys_root)).second) topology.physical_cores.push_back(cpu);
  }
  return topology;
}

Result<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::vector<bool> named(kCpusMax, false);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view piece = std::string_view(text).substr(begin, end - begin);
    const auto range = parse_cpu_range(piece);
    if (!range) {
      return Error{ErrorCode::kBadInput,
                   format("'{}' in the list of cores '{}' is neither a core from 0 to {} nor a range such as 0-3",
                          printable(piece), printable(text), kCpusMax - 1)};
    }
    for (int cpu = range->first; cpu <= range->last; ++cpu) {
      if (named[static_cast<size_t>(cpu)]) {
        return Error{ErrorCode::kBadInput, format("'{}' in the list of cores '{}' names core {} a second time",
                                                  printable(piece), printable(text), cpu)};
      }
      named[static_cast<size_t>(cpu)] = true;
      cpus.push_back(cpu);
    }
    begin = end + 1;
  }
  return cpus;
}

}  // namespace strata
