#include "device/sim/spec.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/format.h"

namespace strata::device::sim {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};
constexpr std::array<Unit, 5> kSizes = {{{"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", 1024 * kGiB}, {"B", 1}}};
constexpr std::array<Unit, 4> kByteRates = {{{"KiBps", kKiB}, {"MiBps", kMiB}, {"GiBps", kGiB}, {"Bps", 1}}};
constexpr std::array<Unit, 3> kFlopRates = {
    {{"MFLOPs", 1'000'000}, {"GFLOPs", 1'000'000'000}, {"TFLOPs", 1'000'000'000'000}}};

Error bad(std::string_view part, std::string_view why) {
  return {ErrorCode::kBadInput, format("--device sim: '{}' {}", printable(part), why)};
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Digits only, and no more than fit.
std::optional<uint64_t> parse_number(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto times_ten = checked_mul(value, 10);
    const auto sum = times_ten ? checked_add(*times_ten, static_cast<uint64_t>(c - '0')) : std::nullopt;
    if (!sum) return std::nullopt;
    value = *sum;
  }
  return value;
}

// A whole number with a unit, in [1, most].
template <size_t n>
std::optional<uint64_t> parse_amount(std::string_view text, const std::array<Unit, n>& units, uint64_t most) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number(text.substr(0, digits));
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == text.substr(digits); });
  if (!number || unit == units.end()) return std::nullopt;
  const auto amount = checked_mul(*number, unit->factor);
  if (!amount || *amount == 0 || *amount > most) return std::nullopt;
  return amount;
}

std::optional<uint64_t> parse_bytes_per_s(std::string_view text) { return parse_amount(text, kByteRates, kMaxRate); }
std::optional<uint64_t> parse_flops(std::string_view text) { return parse_amount(text, kFlopRates, kMaxRate); }

constexpr std::string_view kWantBytesPerS =
    "has to be a rate like 2GiBps (a whole number of Bps, KiBps, MiBps or GiBps, at most 2^60 Bps)";
constexpr std::string_view kWantFlops =
    "has to be a rate like 50GFLOPs (a whole number of MFLOPs, GFLOPs or TFLOPs, at most 2^60)";

// `64MiB` or `2x64MiB`, appended to the devices.
Status parse_devices(std::string_view text, SimSpec& spec) {
  for (const std::string_view part : split(text, ',')) {
    uint64_t count = 1;
    std::string_view size = part;
    if (const size_t x = part.find('x'); x != std::string_view::npos) {
      const auto number = parse_number(part.substr(0, x));
      if (!number || *number == 0) return bad(part, "has to be a size like 64MiB, or 2x64MiB for two devices alike");
      count = *number;
      size = part.substr(x + 1);
    }
    const auto budget = parse_amount(size, kSizes, kMaxBudgetBytes);
    if (!budget) {
      return bad(part,
                 "has to be a memory size like 64MiB (a whole number of B, KiB, MiB, GiB or TiB, at most 1TiB), or "
                 "2x64MiB for two devices alike");
    }
    if (count > kMaxDevices - spec.devices.size()) return bad(part, format("makes more than {} devices", kMaxDevices));
    for (uint64_t i = 0; i < count; i++) spec.devices.push_back({.budget_bytes = *budget});
  }
  return {};
}

// One rate for all devices, or one for each.
template <class Parse>
Status parse_per_device(std::string_view part, std::string_view value, SimSpec& spec, uint64_t DeviceSpec::*field,
                        const Parse& parse, std::string_view want) {
  const std::vector<std::string_view> rates = split(value, ',');
  if (rates.size() != 1 && rates.size() != spec.devices.size()) {
    return bad(part, format("has {} rates for {} devices; give one for all, or one for each", rates.size(),
                            spec.devices.size()));
  }
  for (size_t i = 0; i < spec.devices.size(); i++) {
    const auto rate = parse(rates[rates.size() == 1 ? 0 : i]);
    if (!rate) return bad(part, want);
    spec.devices[i].*field = *rate;
  }
  return {};
}

Status parse_single(std::string_view part, std::string_view value, uint64_t& field) {
  const auto rate = parse_bytes_per_s(value);
  if (!rate) return bad(part, kWantBytesPerS);
  field = *rate;
  return {};
}

Status parse_peer(std::string_view part, std::string_view value, uint64_t& field) {
  if (value != "off") return parse_single(part, value, field);
  field = 0;
  return {};
}

Status parse_lock(std::string_view part, std::string_view value, uint64_t& field) {
  const auto size = value == "off" ? std::optional<uint64_t>(0) : parse_amount(value, kSizes, kMaxBudgetBytes);
  if (!size) return bad(part, "has to be lock=off or a memory size like lock=64MiB");
  field = *size;
  return {};
}

Status parse_whole(std::string_view part, std::string_view value, uint64_t& field) {
  const auto number = parse_number(value);
  if (!number) return bad(part, "has to be a whole number below 2^64");
  field = *number;
  return {};
}

Status parse_check(std::string_view part, std::string_view value, SimSpec& spec) {
  if (value != "on" && value != "off") return bad(part, "has to be check=on or check=off");
  spec.check = value == "on";
  return {};
}

Status parse_option(std::string_view part, std::string_view key, std::string_view value, SimSpec& spec) {
  if (key == "link")
    return parse_per_device(part, value, spec, &DeviceSpec::link_bytes_per_s, parse_bytes_per_s, kWantBytesPerS);
  if (key == "mem")
    return parse_per_device(part, value, spec, &DeviceSpec::mem_bytes_per_s, parse_bytes_per_s, kWantBytesPerS);
  if (key == "compute")
    return parse_per_device(part, value, spec, &DeviceSpec::compute_flops_per_s, parse_flops, kWantFlops);
  if (key == "peer") return parse_peer(part, value, spec.peer_bytes_per_s);
  if (key == "host") return parse_single(part, value, spec.host_bytes_per_s);
  if (key == "drive") return parse_single(part, value, spec.drive_bytes_per_s);
  if (key == "seed") return parse_whole(part, value, spec.seed);
  if (key == "fail") return parse_whole(part, value, spec.fail_at);
  if (key == "lock") return parse_lock(part, value, spec.lock_bytes);
  if (key == "check") return parse_check(part, value, spec);
  return bad(part,
             "is no part of it; known are link=, peer=, compute=, mem=, host=, drive=, seed=, lock=, check= and fail=");
}

}  // namespace

Result<SimSpec> parse_sim_spec(std::string_view text) {
  if (!is_sim_spec(text)) return bad(text, "has to start with sim:");
  const std::vector<std::string_view> parts = split(text.substr(4), '/');
  SimSpec spec;
  RETURN_IF_ERROR(parse_devices(parts[0], spec));
  std::vector<std::string_view> seen;
  for (size_t i = 1; i < parts.size(); i++) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string_view::npos) return bad(parts[i], "has to be key=value, like seed=7");
    const std::string_view key = parts[i].substr(0, equals);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return bad(parts[i], "is given twice");
    seen.push_back(key);
    RETURN_IF_ERROR(parse_option(parts[i], key, parts[i].substr(equals + 1), spec));
  }
  return spec;
}

}  // namespace strata::device::sim
