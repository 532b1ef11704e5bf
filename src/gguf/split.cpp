#include "gguf/split.h"

#include "base/format.h"

namespace strata::gguf {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr size_t kDigits = 5;

// Removes the last n characters of `text` and returns them; nullopt when there are fewer.
std::optional<std::string_view> take_back(std::string_view& text, size_t n) {
  if (text.size() < n) return std::nullopt;
  const std::string_view tail = text.substr(text.size() - n);
  text.remove_suffix(n);
  return tail;
}

std::optional<int> take_back_number(std::string_view& text) {
  const auto digits = take_back(text, kDigits);
  if (!digits) return std::nullopt;
  int value = 0;
  for (const char c : *digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view file_name) {
  std::string_view rest = file_name;
  if (take_back(rest, kExtension.size()) != kExtension) return std::nullopt;
  const auto count = take_back_number(rest);
  if (!count || take_back(rest, 4) != "-of-") return std::nullopt;
  const auto number = take_back_number(rest);
  if (!number || take_back(rest, 1) != "-") return std::nullopt;
  return SplitName{std::string(rest), *number, *count};
}

std::string split_file_name(std::string_view stem, int number, int count) {
  return format("{}-{:05}-of-{:05}.gguf", stem, number, count);
}

std::string derived_name(std::string_view path, std::string_view suffix) {
  std::string stem(file_name_of(path));
  if (const auto split = parse_split_name(stem)) {
    stem = split->stem;
  } else if (stem.ends_with(kExtension)) {
    stem.resize(stem.size() - kExtension.size());
  }
  // Stem and suffix together may still spell the pattern ("x-00001-of-00002" and ".gguf").
  std::string name = stem + std::string(suffix);
  if (parse_split_name(name)) name.insert(name.size() - kExtension.size(), ".derived");
  return std::string(directory_of(path)) + name;
}

std::string_view directory_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash + 1);
}

std::string_view file_name_of(std::string_view path) { return path.substr(directory_of(path).size()); }

}  // namespace strata::gguf
