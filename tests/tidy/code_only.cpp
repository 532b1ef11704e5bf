#include <algorithm>
#include <cctype>

#include "tidy/checks.h"

namespace strata::tidy {
namespace {

// Walks over the text once and copies it, blanking what is not code.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), out_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (starts("//")) {
        blank_until("\n", 0);
      } else if (starts("/*")) {
        blank_until("*/", 2);
      } else if (starts("R\"") && !after_word()) {
        blank_raw_string();
      } else if (text_[at_] == '"' || (text_[at_] == '\'' && !after_word())) {
        blank_quoted(text_[at_]);
      } else {
        ++at_;
      }
    }
    return out_;
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  // A quote after a digit or letter separates digits, as in 1'000'000.
  bool after_word() const { return at_ > 0 && std::isalnum(static_cast<unsigned char>(text_[at_ - 1])) != 0; }

  void blank_to(size_t end) {
    for (; at_ < end; ++at_) {
      if (out_[at_] != '\n') out_[at_] = ' ';
    }
  }

  // Blanks up to `end` and `extra` characters of it.
  void blank_until(std::string_view end, size_t extra) {
    const size_t found = text_.find(end, at_ + 2);
    blank_to(found == std::string_view::npos ? text_.size() : found + extra);
  }

  void blank_raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return blank_to(text_.size());
    const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    blank_until(close, close.size());
  }

  void blank_quoted(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    blank_to(std::min(end + 1, text_.size()));
  }

  std::string_view text_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string code_only(std::string_view text) { return Blanker(text).run(); }

}  // namespace strata::tidy
