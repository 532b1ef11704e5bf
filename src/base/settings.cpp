#include "base/settings.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/format.h"

namespace strata {
namespace {

constexpr size_t kSettings = static_cast<size_t>(Key::kCount);

constexpr std::array<Setting, kSettings> kTable = {{
#define X(key, name, type, def, min, max, unit, choices, scope, help) \
  {Key::key, name, type, def, min, max, unit, choices, scope, help},
    STRATA_SETTINGS(X)
#undef X
}};

bool is_choice(const Setting& row, std::string_view text) {
  std::string_view rest = row.choices;
  for (;;) {
    const size_t bar = rest.find('|');
    if (rest.substr(0, bar) == text) return true;
    if (bar == std::string_view::npos) return false;
    rest.remove_prefix(bar + 1);
  }
}

// The whole text as a number; from_chars knows no locale, no leading blanks and no plus sign.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string allowed_text(const Setting& row) {
  const std::string unit = *row.unit == '\0' ? "" : format(" {}", row.unit);
  const char* or_auto = auto_allowed(row) ? ", or auto" : "";
  switch (row.type) {
    case SettingType::kInt: return format("a whole number from {} to {}{}{}", row.min, row.max, unit, or_auto);
    case SettingType::kFloat: return format("a number from {} to {}{}{}", row.min, row.max, unit, or_auto);
    case SettingType::kChoice: return format("one of {}", row.choices);
    case SettingType::kSwitch: return "on or off";
    case SettingType::kText: return "any text";
  }
  return "";
}

}  // namespace

std::span<const Setting> all_settings() { return kTable; }

const Setting& setting(Key key) {
  ASSERT(static_cast<size_t>(key) < kSettings);
  return kTable[static_cast<size_t>(key)];
}

const Setting* find_setting(std::string_view name) {
  for (const Setting& row : kTable) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

bool auto_allowed(const Setting& setting) {
  const bool is_number = setting.type == SettingType::kInt || setting.type == SettingType::kFloat;
  return is_number && std::string_view(setting.default_text) == "auto";
}

std::string environment_name(const Setting& setting) {
  std::string name = "STRATA_";
  for (const char* c = setting.name; *c != '\0'; ++c) {
    const bool lower = *c >= 'a' && *c <= 'z';
    name += *c == '-' ? '_' : lower ? static_cast<char>(*c - 'a' + 'A') : *c;
  }
  return name;
}

Settings::Settings() : values_(kSettings) {
  for (const Setting& row : kTable) {
    const auto value = parse(row, row.default_text);
    ASSERT(value.has_value());  // the table contradicts itself
    values_[static_cast<size_t>(row.key)] = *value;
  }
}

std::optional<Settings::Value> Settings::parse(const Setting& row, std::string_view text) {
  Value value;
  value.text = text;
  switch (row.type) {
    case SettingType::kInt:
    case SettingType::kFloat:
      value.is_auto = text == "auto" && auto_allowed(row);
      if (value.is_auto) return value;
      break;
    case SettingType::kText: return value;
    case SettingType::kChoice: return is_choice(row, text) ? std::optional(value) : std::nullopt;
    case SettingType::kSwitch:
      value.integer = text == "on";
      return text == "on" || text == "off" ? std::optional(value) : std::nullopt;
  }
  if (row.type == SettingType::kInt) {
    const auto integer = parse_number<int64_t>(text);
    if (!integer) return std::nullopt;
    value.integer = *integer;
    value.number = static_cast<double>(*integer);
  } else {
    const auto number = parse_number<double>(text);
    if (!number) return std::nullopt;
    value.number = *number + 0.0;  // no negative zero
  }
  const bool in_range = value.number >= row.min && value.number <= row.max;  // false for NaN
  return in_range ? std::optional(value) : std::nullopt;
}

Status Settings::set(Key key, std::string_view text, std::string_view origin) {
  const Setting& row = setting(key);
  auto value = parse(row, text);
  if (!value) {
    return Error{ErrorCode::kBadInput,
                 format("{}: '{}' is not allowed; give {}", origin, printable(text), allowed_text(row))};
  }
  value->given = true;
  values_[static_cast<size_t>(key)] = std::move(*value);
  return {};
}

Status Settings::load_environment(uint32_t scope) {
  for (const Setting& row : kTable) {
    if ((row.scope & (scope | kScopeGlobal)) == 0 || is_set(row.key)) continue;
    const std::string name = environment_name(row);
    std::string text = environment(name.c_str());
    if (row.type == SettingType::kSwitch && (text == "1" || text == "0")) text = text == "1" ? "on" : "off";
    if (!text.empty()) RETURN_IF_ERROR(set(row.key, text, name));
  }
  return {};
}

const Settings::Value& Settings::value_of(Key key) const {
  ASSERT(static_cast<size_t>(key) < kSettings);
  return values_[static_cast<size_t>(key)];
}

bool Settings::is_set(Key key) const { return value_of(key).given; }

bool Settings::is_auto(Key key) const {
  ASSERT(setting(key).type == SettingType::kInt || setting(key).type == SettingType::kFloat);
  return value_of(key).is_auto;
}

int64_t Settings::integer(Key key) const {
  ASSERT(setting(key).type == SettingType::kInt);
  ASSERT(!value_of(key).is_auto);
  return value_of(key).integer;
}

double Settings::number(Key key) const {
  ASSERT(setting(key).type == SettingType::kFloat);
  ASSERT(!value_of(key).is_auto);
  return value_of(key).number;
}

bool Settings::on(Key key) const {
  ASSERT(setting(key).type == SettingType::kSwitch);
  return value_of(key).integer != 0;
}

const std::string& Settings::text(Key key) const {
  ASSERT(setting(key).type == SettingType::kText || setting(key).type == SettingType::kChoice);
  return value_of(key).text;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace strata
