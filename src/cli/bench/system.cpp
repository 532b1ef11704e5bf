#include "cli/bench/system.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <unistd.h>

#include "base/bytes.h"
#include "base/topology.h"
#include "cli/bench/team.h"
#include "cli/streams.h"
#include "kernels/kernels.h"

namespace strata::cli {
namespace {

constexpr uint64_t kMaxCpuinfoBytes = 64 * kMiB;
constexpr uint64_t kMaxWordBytes = kKiB;
constexpr const char* kUnknown = "unknown";

constexpr std::array kFeatures = {"sse4_2",     "avx",        "avx2",         "fma",          "f16c",
                                  "avx_vnni",   "avx512f",    "avx512dq",     "avx512bw",     "avx512vl",
                                  "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx512vbmi",   "gfni",
                                  "amx_tile",   "amx_int8",   "amx_bf16"};

// What stands behind the colon of the first line of /proc/cpuinfo that begins with `name`; empty for none.
std::string cpuinfo_field(std::string_view name) {
  const auto text = read_text("/proc/cpuinfo", kMaxCpuinfoBytes);
  if (!text.ok()) return "";
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string_view::npos) continue;
    const size_t begin = line.find_first_not_of(' ', colon + 1);
    return begin == std::string_view::npos ? "" : std::string(line.substr(begin));
  }
  return "";
}

std::vector<std::string> granted_features() {
  const std::string flags = " " + cpuinfo_field("flags") + " ";
  std::vector<std::string> granted;
  for (const std::string feature : kFeatures) {
    if (flags.find(" " + feature + " ") != std::string::npos) granted.push_back(feature);
  }
  return granted;
}

// The word in brackets: "always [madvise] never".
std::string huge_pages() {
  const auto text = read_text("/sys/kernel/mm/transparent_hugepage/enabled", kMaxWordBytes);
  if (!text.ok()) return kUnknown;
  const size_t begin = text->find('[');
  const size_t end = text->find(']');
  return begin < end && end != std::string::npos ? text->substr(begin + 1, end - begin - 1) : kUnknown;
}

std::string best_kernels() {
  const auto kernels = kernels::select_kernels("auto");
  return kernels.ok() ? kernels::isa_name((*kernels)->isa) : kUnknown;
}

}  // namespace

std::string cpu_name() {
  const std::string name = cpuinfo_field("model name");
  return name.empty() ? kUnknown : name;
}

uint64_t largest_cache_bytes() {
  long largest = 0;
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
    largest = std::max(largest, ::sysconf(name));
  }
  return static_cast<uint64_t>(largest);
}

Result<SystemReport> measure_system(const SystemOptions& options) {
  SystemReport report;
  if (!options.drive_file.empty()) {
    ASSIGN_OR_RETURN(report.drive, measure_drive(options.drive_file));
  }
  const Topology topology = read_topology();
  report.cpu_name = cpu_name();
  report.n_cpus = static_cast<int>(topology.cpus.size());
  report.n_physical_cores = static_cast<int>(topology.physical_cores.size());
  report.cache_bytes = largest_cache_bytes();
  report.features = granted_features();
  report.kernels = best_kernels();
  ASSIGN_OR_RETURN(report.available_ram_bytes, available_ram_bytes());
  report.page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  report.huge_pages = huge_pages();
  for (const ThreadPoolOptions& threads : {team_options(options.cpus, 1), team_options(options.cpus, 0)}) {
    if (!report.memory.empty() && threads.n_threads == 1) break;
    ASSIGN_OR_RETURN(MemorySpeed speed, measure_memory(threads, options.buffer_bytes));
    report.memory.push_back(speed);
  }
  return report;
}

}  // namespace strata::cli
