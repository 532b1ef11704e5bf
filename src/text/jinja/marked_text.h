// Text that remembers which of its bytes are content: data of a request, as opposed to text of the template. What is
// content is tokenised without special tokens, so that no message can write control tokens.
//
// Marks follow bytes: slices, concatenations, replacements, joins, trims, changes of case and everything else that
// copies characters keeps the marks of each. What is derived from a value as a whole (its JSON, its Python notation) is
// content throughout if anything in the value is; cutting JSON at every string would tokenise it unlike any training
// text. Numbers and truth values carry no marks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string bytes, bool is_content = false);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool has_content() const { return !spans_.empty(); }
  // Memory it takes, roughly.
  size_t cost() const { return bytes_.size() + spans_.size() * sizeof(Span); }

  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of `other`, which may not be this text.
  void append(const MarkedText& other, size_t begin, size_t end);
  void append(std::string_view bytes, bool is_content);
  MarkedText slice(size_t begin, size_t end) const;

  // Calls body(bytes, is_content) for each longest run of one kind, in order.
  template <class Body>
  void for_each_run(const Body& body) const {
    const std::string_view all = bytes_;
    size_t at = 0;
    for (const Span& span : spans_) {
      if (span.begin > at) body(all.substr(at, span.begin - at), false);
      body(all.substr(span.begin, span.end - span.begin), true);
      at = span.end;
    }
    if (at < all.size()) body(all.substr(at), false);
  }

 private:
  struct Span {
    size_t begin, end;
  };
  void mark(size_t begin, size_t end);

  std::string bytes_;
  std::vector<Span> spans_;  // of content; ascending, not empty, not touching
};

}  // namespace strata::text::jinja
