// The report of a machine, for people and for programs.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/bench/system.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr double kGiga = 1e9;

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& word : list) text += (text.empty() ? "" : " ") + word;
  return text.empty() ? "none" : text;
}

std::string memory_lines(const SystemReport& report) {
  std::string text = "\n| threads | read GB/s | write GB/s | copy GB/s | buffer | on huge pages |\n"
                     "| ---: | ---: | ---: | ---: | ---: | ---: |\n";
  bool reduced = false;
  for (const MemorySpeed& speed : report.memory) {
    text += format("| {} | {:.2f} | {:.2f} | {:.2f} | {} | {} |\n", speed.read.threads,
                   speed.read.bytes_per_second / kGiga, speed.write_bytes_per_second / kGiga,
                   speed.copy_bytes_per_second / kGiga, format_bytes(speed.read.buffer_bytes),
                   format_bytes(speed.read.huge_bytes));
    reduced = reduced || speed.read.reduced;
  }
  if (reduced) text += "the buffer is smaller than asked for: half of the available RAM is taken at most\n";
  return text;
}

std::string drive_line(const DriveSpeed& drive) {
  const char* how = drive.direct ? "past the cache" : "no direct reads here: the system's cache may have helped";
  return format("\n{}: {:.2f} GB/s ({} read, {})\n", path_text(drive.path), drive.bytes_per_second / kGiga,
                format_bytes(drive.read_bytes), how);
}

Json memory_json(const MemorySpeed& speed) {
  return {{"threads", speed.read.threads},
          {"read_bytes_per_second", speed.read.bytes_per_second},
          {"write_bytes_per_second", speed.write_bytes_per_second},
          {"copy_bytes_per_second", speed.copy_bytes_per_second},
          {"buffer_bytes", speed.read.buffer_bytes},
          {"buffer_reduced", speed.read.reduced},
          {"huge_page_bytes", speed.read.huge_bytes}};
}

}  // namespace

std::string system_text(const SystemReport& report) {
  std::string text = format("{}: {} cores, {} logical; largest cache {}\n", printable(report.cpu_name),
                            report.n_physical_cores, report.n_cpus, format_bytes(report.cache_bytes));
  text += format("features: {}; kernels: {}\n", words(report.features), report.kernels);
  text += format("RAM available: {}; pages of {}, huge ones: {}\n", format_bytes(report.available_ram_bytes),
                 format_bytes(report.page_bytes), printable(report.huge_pages));
  text += memory_lines(report);
  return report.drive ? text + drive_line(*report.drive) : text;
}

std::string system_json(const SystemReport& report) {
  Json memory = Json::array();
  for (const MemorySpeed& speed : report.memory) memory.push_back(memory_json(speed));
  Json json = {{"cpu", report.cpu_name},
               {"logical_cpus", report.n_cpus},
               {"physical_cores", report.n_physical_cores},
               {"largest_cache_bytes", report.cache_bytes},
               {"features", report.features},
               {"kernels", report.kernels},
               {"available_ram_bytes", report.available_ram_bytes},
               {"page_bytes", report.page_bytes},
               {"huge_pages", report.huge_pages},
               {"memory", std::move(memory)},
               {"drive", nullptr}};
  if (report.drive) {
    json["drive"] = {{"path", report.drive->path},
                     {"file_bytes", report.drive->file_bytes},
                     {"read_bytes", report.drive->read_bytes},
                     {"bytes_per_second", report.drive->bytes_per_second},
                     {"direct", report.drive->direct}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata::cli
