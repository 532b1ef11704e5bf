#include "cli/bench/lists.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/format.h"

namespace strata::cli {
namespace {

constexpr size_t kMaxPieces = 16;
constexpr int64_t kMaxRows = 1 << 20;
constexpr int64_t kMaxCols = 1 << 17;
// The longest block of a tensor type.
constexpr int64_t kColsStep = 256;

std::optional<int64_t> parse_count(std::string_view text, CountRange allowed) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count >= allowed.min && count <= allowed.max ? std::optional(count) : std::nullopt;
}

std::optional<Shape> parse_shape(std::string_view text) {
  const size_t x = text.find('x');
  if (x == std::string_view::npos) return std::nullopt;
  const auto rows = parse_count(text.substr(0, x), {1, kMaxRows});
  const auto cols = parse_count(text.substr(x + 1), {kColsStep, kMaxCols});
  if (!rows || !cols || *cols % kColsStep != 0) return std::nullopt;
  return Shape{*rows, *cols};
}

// Parses each piece between commas; `allowed` says what one has to be.
template <class T, class Parse>
Result<std::vector<T>> parse_list(const Settings& settings, Key key, const std::string& allowed, const Parse& parse) {
  const std::string& text = settings.text(key);
  std::vector<T> list;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view piece = std::string_view(text).substr(begin, end - begin);
    const std::optional<T> value = list.size() < kMaxPieces ? parse(piece) : std::nullopt;
    if (!value) {
      return Error{ErrorCode::kBadInput, format("--{} {}: '{}' is not allowed; give at most {} {}, separated by commas",
                                                setting(key).name, printable(text), printable(piece), kMaxPieces,
                                                allowed)};
    }
    list.push_back(*value);
    begin = end + 1;
  }
  return list;
}

}  // namespace

Result<std::vector<int64_t>> parse_counts(const Settings& settings, Key key, CountRange allowed) {
  const std::string words = format("whole numbers from {} to {}", allowed.min, allowed.max);
  return parse_list<int64_t>(settings, key, words, [&](std::string_view piece) { return parse_count(piece, allowed); });
}

Result<std::vector<Shape>> parse_shapes(const Settings& settings) {
  const std::string words = format("ROWSxCOLUMNS up to {}x{}, with a multiple of {} columns", kMaxRows, kMaxCols,
                                   kColsStep);
  return parse_list<Shape>(settings, Key::kShape, words, parse_shape);
}

}  // namespace strata::cli
