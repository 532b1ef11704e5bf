// Reasoning between an opening and a closing tag.
#include <algorithm>

#include "base/format.h"
#include "text/pattern_set.h"
#include "text/reasoning.h"

namespace strata::text {
namespace {

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

class TagSplitter : public ReasoningSplitter {
 public:
  TagSplitter(std::string_view opener, std::string_view closer, bool inside)
      : opener_(opener), closer_(closer), search_({closer_}), state_(inside ? State::kReasoning : State::kFront) {}

  void push(std::string_view text, std::vector<TextEvent>& events) override {
    for (size_t i = 0; i < text.size(); ++i) {
      switch (state_) {
        case State::kFront: push_front(text[i], events); break;
        case State::kReasoning: push_reasoning(text[i], events); break;
        case State::kAnswer: add_text(TextPart::kAnswer, text.substr(i), events); return;
      }
    }
  }

  void flush(std::vector<TextEvent>& events) override {
    if (state_ == State::kReasoning) {
      const bool only_space = !has_reasoned_ && n_space_ == held_.size();
      if (!only_space) give_reasoning(held_.size(), events);
    } else {
      add_text(TextPart::kAnswer, held_, events);
    }
    held_.clear();
  }

 private:
  enum class State {
    kFront,      // before the answer. held_: white space, then what may become a tag
    kReasoning,  // held_: white space, then what may become the closer
    kAnswer,     // holds nothing: no tag counts any more
  };

  void push_front(char byte, std::vector<TextEvent>& events) {
    if (n_space_ == held_.size() && is_space(byte)) {
      if (after_tag_) return;
      held_ += byte;
      ++n_space_;
      return;
    }
    held_ += byte;
    const std::string_view mark = std::string_view(held_).substr(n_space_);
    if (mark == opener_) {
      enter(State::kReasoning);
      has_reasoned_ = false;
    } else if (mark == closer_) {
      enter(State::kFront);
    } else if (!opener_.starts_with(mark) && !closer_.starts_with(mark)) {
      add_text(TextPart::kAnswer, held_, events);
      enter(State::kAnswer);
    }
  }

  void push_reasoning(char byte, std::vector<TextEvent>& events) {
    held_ += byte;
    if (search_.advance(byte)) {  // what else is held is white space
      enter(State::kFront);
      return;
    }
    // All before the possible closer is certain, but white space may yet turn out to stand next to it.
    const size_t n_certain = held_.size() - search_.n_open();
    size_t n_given = 0;
    for (; n_space_ < n_certain; ++n_space_) {
      if (!is_space(held_[n_space_])) n_given = n_space_ + 1;
    }
    if (n_given > 0) give_reasoning(n_given, events);
  }

  // The first n bytes held, without the white space that follows the opener.
  void give_reasoning(size_t n, std::vector<TextEvent>& events) {
    const std::string_view given = std::string_view(held_).substr(0, n);
    const auto begin = has_reasoned_ ? given.begin() : std::find_if_not(given.begin(), given.end(), is_space);
    add_text(TextPart::kReasoning, given.substr(static_cast<size_t>(begin - given.begin())), events);
    has_reasoned_ = true;
    held_.erase(0, n);
    n_space_ -= std::min(n_space_, n);
  }

  void enter(State state) {
    state_ = state;
    held_.clear();
    n_space_ = 0;
    after_tag_ = true;
    search_.reset();
  }

  std::string opener_;
  std::string closer_;
  PatternSet search_;  // for the closer
  State state_;
  std::string held_;
  size_t n_space_ = 0;        // white space that held_ begins with
  bool after_tag_ = false;    // white space in front belongs to a tag
  bool has_reasoned_ = false; // in this block
};

bool fits(std::string_view tag) { return !tag.empty() && tag.size() <= kMaxTagBytes && !is_space(tag.front()); }

}  // namespace

Result<std::unique_ptr<ReasoningSplitter>> make_tag_splitter(std::string_view opener, std::string_view closer,
                                                             bool inside) {
  if (!fits(opener) || !fits(closer) || opener.starts_with(closer) || closer.starts_with(opener)) {
    return Error{ErrorCode::kBadInput,
                 format("reasoning tags '{}' and '{}' can't be used; give two that are not empty, at most {} bytes "
                        "long, begin with no white space, and of which none begins with the other",
                        printable(opener), printable(closer), kMaxTagBytes)};
  }
  return std::unique_ptr<ReasoningSplitter>(std::make_unique<TagSplitter>(opener, closer, inside));
}

std::unique_ptr<ReasoningSplitter> make_tag_style(const ReasoningStyle& style, bool inside) {
  return std::make_unique<TagSplitter>(style.marks[0], style.marks[1], inside);
}

// It ends with an opener, but for white space.
bool tag_opened_by(const ReasoningStyle& style, std::string_view prompt) {
  while (!prompt.empty() && is_space(prompt.back())) prompt.remove_suffix(1);
  return prompt.ends_with(style.marks[0]);
}

}  // namespace strata::text
