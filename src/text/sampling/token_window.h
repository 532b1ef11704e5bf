// The last accepted tokens, as the stages that punish repetition see them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace strata::text {

// Memory follows the tokens that came, not the size asked for: that may come from a request.
class TokenWindow {
 public:
  // `limit`: tokens kept; negative for all. Not 0.
  explicit TokenWindow(int32_t limit) : limit_(static_cast<size_t>(limit < 0 ? INT32_MAX : limit)) {
    ring_.reserve(std::min(limit_, kReserved));
  }

  // Takes a token; gives the one that leaves the window for it.
  std::optional<int32_t> push(int32_t id) {
    if (ring_.size() < limit_) {
      ring_.push_back(id);
      return std::nullopt;
    }
    const int32_t oldest = ring_[oldest_];
    ring_[oldest_] = id;
    oldest_ = oldest_ + 1 == limit_ ? 0 : oldest_ + 1;
    return oldest;
  }

  size_t size() const { return ring_.size(); }
  // The token `age` before the last; age < size().
  int32_t back(size_t age) const {
    const size_t from_end = age + 1;  // of what lies before oldest_, then of the rest
    return from_end <= oldest_ ? ring_[oldest_ - from_end] : ring_[oldest_ + ring_.size() - from_end];
  }
  void clear() {
    ring_.clear();
    oldest_ = 0;
  }

 private:
  static constexpr size_t kReserved = 4096;

  size_t limit_;
  std::vector<int32_t> ring_;
  size_t oldest_ = 0;  // index of the oldest token, and end of the newest ones
};

}  // namespace strata::text
