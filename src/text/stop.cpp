#include "text/stop.h"

#include <utility>

#include "base/format.h"
#include "text/utf8.h"

namespace strata::text {

Result<StopStrings> StopStrings::create(const std::vector<std::string>& texts) {
  if (texts.size() > kMaxStopStrings) {
    return Error{ErrorCode::kBadInput, format("{} stop strings are given; the limit is {}", texts.size(),
                                              kMaxStopStrings)};
  }
  std::vector<std::string> patterns;
  std::vector<size_t> indices;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    if (texts[i].size() > kMaxStopBytes) {
      return Error{ErrorCode::kBadInput, format("stop string {} has {} bytes; the limit is {}", i, texts[i].size(),
                                                kMaxStopBytes)};
    }
    if (!is_valid_utf8(texts[i])) {
      return Error{ErrorCode::kBadInput, format("stop string {} is not UTF-8: '{}'", i, printable(texts[i]))};
    }
    patterns.push_back(texts[i]);
    indices.push_back(i);
  }
  return StopStrings(PatternSet(std::move(patterns)), std::move(indices));
}

std::string StopStrings::push(std::string_view text) {
  if (matched_) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    const std::optional<size_t> found = patterns_.advance(text[i]);
    if (!found) continue;
    matched_ = indices_[*found];
    held_ += text.substr(0, i + 1);
    held_.resize(held_.size() - patterns_.pattern(*found).size());
    return std::exchange(held_, {});
  }
  held_ += text;
  std::string certain = held_.substr(0, held_.size() - patterns_.n_open());
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::flush() {
  patterns_.reset();
  return std::exchange(held_, {});
}

}  // namespace strata::text
