// Ends an answer at texts that the request names, as it streams.
//
// The rule does not depend on how the text was cut: the answer ends at the byte with which the first stop string is
// complete; of those complete with the same byte the longest counts. What comes before it is given out, it and what
// follows are not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pattern_set.h"

namespace strata::text {

inline constexpr size_t kMaxStopStrings = 256;
inline constexpr size_t kMaxStopBytes = 1024;  // of each

// One per answer; not for several threads at once. Text goes in as StreamDecoder gives it out, in whole characters, and
// comes out so.
class StopStrings {
 public:
  // Empty texts are ignored. kBadInput for more than kMaxStopStrings and for a text that is longer than kMaxStopBytes
  // or not UTF-8.
  static Result<StopStrings> create(const std::vector<std::string>& texts);

  // All text that is certain by now not to belong to a stop string. Held back is only what can be the beginning of one.
  // Nothing once matched().
  std::string push(std::string_view text);
  // The end of the answer: what was held back is plain text then.
  std::string flush();

  // Index, in the list given to create(), of the stop string that was found.
  std::optional<size_t> matched() const { return matched_; }

 private:
  StopStrings(PatternSet patterns, std::vector<size_t> indices)
      : patterns_(std::move(patterns)), indices_(std::move(indices)) {}

  PatternSet patterns_;
  std::vector<size_t> indices_;  // of patterns, in the list given
  std::string held_;
  std::optional<size_t> matched_;
};

}  // namespace strata::text
