// Finds any of a few texts in a stream of bytes: Knuth, Morris and Pratt's search, for each of them side by side, so
// that the work per byte depends on their number only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

// Value type; not for several threads at once.
class PatternSet {
 public:
  // No pattern is empty.
  explicit PatternSet(std::vector<std::string> patterns);

  // Takes the next byte; gives the index of the pattern that ends with it, of several the longest, then the first.
  std::optional<size_t> advance(char byte);
  const std::string& pattern(size_t index) const { return patterns_[index].text; }
  // How many of the last bytes are the beginning of a pattern, or all of one: at most; 0 for none.
  size_t n_open() const;
  // Forgets the bytes taken.
  void reset();

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> borders;  // [n]: longest proper prefix of the text's first n bytes that also ends them
    size_t n_matched = 0;
  };
  std::vector<Pattern> patterns_;
};

}  // namespace strata::text
