#include "cli/plan/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <span>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/settings.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = 64 * kKiB;
constexpr size_t kMaxRows = 64;

Error not_ours(const std::string& path) {
  return {ErrorCode::kBadInput, format("{} is not a file of measured rates; delete it, and run strata bench system",
                                       path_text(path))};
}

// The member of this name, if it is a text; else nothing.
std::optional<std::string> text_of(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}
// If it is a positive number.
std::optional<double> rate_of(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  const auto value = at->get<double>();
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<MeasuredRates::Ram> ram_of(const Json& row) {
  if (!row.is_object()) return std::nullopt;
  const auto threads = rate_of(row, "threads");
  const auto rate = rate_of(row, "bytes_per_second");
  if (!threads || !rate || *threads > 1e6) return std::nullopt;
  return MeasuredRates::Ram{static_cast<int>(*threads), *rate};
}

std::optional<MeasuredRates::Drive> drive_of(const Json& drive) {
  if (!drive.is_object()) return std::nullopt;
  auto date = text_of(drive, "date"), path = text_of(drive, "path");
  const auto rate = rate_of(drive, "bytes_per_second");
  if (!date || !path || !rate) return std::nullopt;
  return MeasuredRates::Drive{std::move(*date), std::move(*path), *rate};
}

std::optional<MeasuredRates> parse_rates(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  MeasuredRates rates;
  auto date = text_of(json, "date"), cpu = text_of(json, "cpu");
  const auto ram = json.find("ram"), drive = json.find("drive");
  if (!date || !cpu || ram == json.end() || !ram->is_array() || ram->empty() || ram->size() > kMaxRows) {
    return std::nullopt;
  }
  rates.date = std::move(*date);
  rates.cpu = std::move(*cpu);
  for (const Json& row : *ram) {
    const auto parsed = ram_of(row);
    if (!parsed) return std::nullopt;
    rates.ram.push_back(*parsed);
  }
  if (drive != json.end() && !drive->is_null()) {
    rates.drive = drive_of(*drive);
    if (!rates.drive) return std::nullopt;
  }
  return rates;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local) == nullptr) return "an unknown day";
  return format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

}  // namespace

double MeasuredRates::ram_rate(int threads) const {
  double all = 0, one = 0;
  for (const Ram& row : ram) {
    if (row.threads == threads) return row.bytes_per_second;
    all = std::max(all, row.bytes_per_second);
    if (row.threads == 1) one = row.bytes_per_second;
  }
  return one > 0 ? std::min(all, one * threads) : all;
}

std::string rates_path() {
  std::string folder = environment("XDG_CACHE_HOME");
  if (!folder.starts_with('/')) {
    const std::string home = environment("HOME");
    if (!home.starts_with('/')) return "";
    folder = home + "/.cache";
  }
  return folder + "/strata/rates.json";
}

Result<MeasuredRates> load_rates(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxFileBytes));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::optional<MeasuredRates> rates = parse_rates(json);
  if (!rates) return not_ours(path);
  return std::move(*rates);
}

Status save_rates(const std::string& path, const MeasuredRates& rates) {
  Json ram = Json::array();
  for (const MeasuredRates::Ram& row : rates.ram) {
    ram.push_back({{"threads", row.threads}, {"bytes_per_second", row.bytes_per_second}});
  }
  Json json = {{"date", rates.date}, {"cpu", rates.cpu}, {"ram", std::move(ram)}, {"drive", nullptr}};
  if (rates.drive) {
    json["drive"] = {{"date", rates.drive->date},
                     {"path", rates.drive->path},
                     {"bytes_per_second", rates.drive->bytes_per_second}};
  }
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) {
    return Error{ErrorCode::kIo, format("cannot make the folder of {}: {}", path_text(path), failed.message())};
  }
  OutputFile file(path);
  RETURN_IF_ERROR(file.open());
  RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

MeasuredRates rates_of(const SystemReport& report, const std::string& date, const Result<MeasuredRates>& earlier) {
  MeasuredRates rates{.date = date, .cpu = report.cpu_name, .ram = {}, .drive = {}};
  for (const MemorySpeed& speed : report.memory) {
    rates.ram.push_back({speed.read.threads, speed.read.bytes_per_second});
  }
  if (report.drive) {
    rates.drive = {.date = date, .path = report.drive->path, .bytes_per_second = report.drive->bytes_per_second};
  } else if (earlier.ok() && earlier->cpu == rates.cpu) {
    rates.drive = earlier->drive;
  }
  return rates;
}

void keep_rates(const SystemReport& report) {
  const std::string path = rates_path();
  if (path.empty()) return;
  const Status saved = save_rates(path, rates_of(report, today(), load_rates(path)));
  if (!saved.ok()) log_info("the measured rates are not kept for strata plan: {}", saved.error().message);
}

}  // namespace strata::cli
