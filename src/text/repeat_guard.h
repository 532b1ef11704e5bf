// Ends the answer of a model that has got stuck on one token.
#pragma once

#include <cstdint>

namespace strata::text {

// One per answer.
class RepeatGuard {
 public:
  // `limit`: the same token this often in a row is enough; 0 never.
  explicit RepeatGuard(int64_t limit) : limit_(limit) {}

  // Takes a token of the answer; true when the answer is to end with it, as if it had reached its greatest length.
  bool push(int32_t id) {
    n_ = id == last_ ? n_ + 1 : 1;
    last_ = id;
    return limit_ > 0 && n_ >= limit_;
  }

 private:
  int64_t limit_;
  int64_t n_ = 0;
  int32_t last_ = -1;
};

}  // namespace strata::text
