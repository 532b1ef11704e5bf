#include "text/pattern_set.h"

#include <algorithm>

#include "base/assert.h"

namespace strata::text {
namespace {

// How many bytes of `text` are matched after `byte`, when `n` were before.
size_t next_matched(std::string_view text, const std::vector<uint32_t>& borders, size_t n, char byte) {
  if (n == text.size()) n = borders[n];
  while (n > 0 && text[n] != byte) n = borders[n];
  return text[n] == byte ? n + 1 : 0;
}

std::vector<uint32_t> borders_of(std::string_view text) {
  std::vector<uint32_t> borders(text.size() + 1, 0);
  for (size_t n = 1; n < text.size(); ++n) {
    borders[n + 1] = static_cast<uint32_t>(next_matched(text, borders, borders[n], text[n]));
  }
  return borders;
}

}  // namespace

PatternSet::PatternSet(std::vector<std::string> patterns) {
  for (std::string& text : patterns) {
    ASSERT(!text.empty());
    std::vector<uint32_t> borders = borders_of(text);
    patterns_.push_back({.text = std::move(text), .borders = std::move(borders)});
  }
}

std::optional<size_t> PatternSet::advance(char byte) {
  std::optional<size_t> found;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& pattern = patterns_[i];
    pattern.n_matched = next_matched(pattern.text, pattern.borders, pattern.n_matched, byte);
    if (pattern.n_matched < pattern.text.size()) continue;
    if (!found || pattern.text.size() > patterns_[*found].text.size()) found = i;
  }
  return found;
}

size_t PatternSet::n_open() const {
  size_t n = 0;
  for (const Pattern& pattern : patterns_) n = std::max(n, pattern.n_matched);
  return n;
}

void PatternSet::reset() {
  for (Pattern& pattern : patterns_) pattern.n_matched = 0;
}

}  // namespace strata::text
