// DRY: a token that would prolong a repetition of what was said before is punished, more the longer the repetition is.
//
// With w the window of accepted tokens, L_i is the length of the longest common suffix of w[0..i] and w, but never over
// a breaker. The token w[i + 1] would make it longer by one; the longest L_i >= allowed_length of all its places sets
// its penalty, multiplier * base^(L - allowed_length).
#include <algorithm>
#include <cmath>
#include <limits>

#include "text/sampling/dry_breakers.h"
#include "text/sampling/stage.h"
#include "text/sampling/token_window.h"

namespace strata::text {
namespace {

constexpr double kLogFloatMax = 88.72;  // of the largest power that float holds

class Dry : public Stage {
 public:
  Dry(const SamplerParams& params, int32_t n_vocab)
      : multiplier_(static_cast<double>(params.dry_multiplier)),
        base_(static_cast<double>(params.dry_base)),
        allowed_length_(static_cast<size_t>(params.dry_allowed_length)),
        breakers_(params.dry_breakers),
        window_(params.dry_penalty_last_n),
        longest_(static_cast<size_t>(n_vocab), kNone) {}

  void apply(Candidates& candidates) override {
    if (window_.size() <= allowed_length_) return;
    const size_t limit = repetition_limit();
    if (limit < allowed_length_) return;
    find_common_suffixes();
    note_longest(limit);
    for (Candidate& candidate : candidates.items()) {
      const int64_t length = longest_[static_cast<size_t>(candidate.id)];
      if (length != kNone && !breaks(candidate.id)) candidate.logit -= penalty(static_cast<size_t>(length));
    }
    for (size_t age = 0; age < window_.size(); ++age) set_longest(window_.back(age), kNone);
    candidates.changed(candidates.size());
  }

  void accept(int32_t id) override { window_.push(id); }
  void reset() override { window_.clear(); }

 private:
  static constexpr int64_t kNone = -1;

  bool breaks(int32_t id) const { return breakers_ != nullptr && breakers_->is_single(id); }

  // Tokens after the nearest breaker; all of the window when there is none.
  size_t repetition_limit() const {
    if (breakers_ == nullptr) return window_.size();
    for (size_t age = 0; age < window_.size(); ++age) {
      std::optional<size_t> longest_tail;
      for (const std::vector<int32_t>& tail : breakers_->tails(window_.back(age))) {
        if (follows(tail, age)) longest_tail = std::max(longest_tail.value_or(0), tail.size());
      }
      if (longest_tail) return age - *longest_tail;
    }
    return window_.size();
  }

  // Whether the tokens after the one of `age` begin with `tail`.
  bool follows(const std::vector<int32_t>& tail, size_t age) const {
    if (tail.size() > age) return false;
    for (size_t i = 0; i < tail.size(); ++i) {
      if (window_.back(age - 1 - i) != tail[i]) return false;
    }
    return true;
  }

  // suffixes_[age]: length of the longest common suffix of the window and of the window without its last `age` tokens;
  // the Z-function of the reversed window.
  void find_common_suffixes() {
    const size_t n = window_.size();
    suffixes_.assign(n, 0);
    size_t begin = 0, end = 0;  // the match that reaches farthest back
    for (size_t age = 1; age < n; ++age) {
      size_t length = age < end ? std::min(end - age, suffixes_[age - begin]) : 0;
      while (age + length < n && window_.back(length) == window_.back(age + length)) ++length;
      suffixes_[age] = length;
      if (age + length > end) {
        begin = age;
        end = age + length;
      }
    }
  }

  void note_longest(size_t limit) {
    for (size_t age = 1; age < window_.size(); ++age) {
      const size_t length = std::min(suffixes_[age], limit);
      if (length < allowed_length_) continue;
      const int32_t prolongs = window_.back(age - 1);
      if (!in_vocabulary(prolongs)) continue;
      const int64_t known = longest_[static_cast<size_t>(prolongs)];
      longest_[static_cast<size_t>(prolongs)] = std::max(known, static_cast<int64_t>(length));
    }
  }

  // Finite, so that an infinite logit stays a number.
  float penalty(size_t length) const {
    double exponent = static_cast<double>(length - allowed_length_);
    if (base_ > 1) exponent = std::min(exponent, kLogFloatMax / std::log(base_));
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(multiplier_ * std::pow(base_, exponent), -kMost, kMost));
  }

  bool in_vocabulary(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < longest_.size(); }
  void set_longest(int32_t id, int64_t length) {
    if (in_vocabulary(id)) longest_[static_cast<size_t>(id)] = length;
  }

  double multiplier_;
  double base_;
  size_t allowed_length_;
  std::shared_ptr<const DryBreakers> breakers_;
  TokenWindow window_;
  std::vector<size_t> suffixes_;  // by age
  std::vector<int64_t> longest_;  // by id: repetition that it would prolong; kNone between two calls
};

}  // namespace

std::unique_ptr<Stage> make_dry(const SamplerParams& params, int32_t n_vocab) {
  return std::make_unique<Dry>(params, n_vocab);
}

}  // namespace strata::text
