// Makes a text piece by piece; memory is counted before it is taken, so that no filter can outgrow the limits.
#pragma once

#include <string_view>
#include <utility>

#include "text/jinja/value.h"

namespace strata::text::jinja {

class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap) {}

  size_t size() const { return text_.size(); }
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  void append(const MarkedText& other, size_t begin, size_t end) {
    heap_.take_memory(end - begin + kPieceBytes);
    text_.append(other, begin, end);
  }
  void append(std::string_view bytes, bool is_content) {
    heap_.take_memory(bytes.size() + kPieceBytes);
    text_.append(bytes, is_content);
  }
  // `count` times the same character.
  void pad(int64_t count, char character) {
    if (count <= 0) return;
    heap_.take_memory(static_cast<size_t>(count));
    text_.append(std::string(static_cast<size_t>(count), character), false);
  }
  MarkedText take() { return std::move(text_); }
  Value finish() { return Value::string(heap_.make<Text>(std::move(text_))); }

 private:
  static constexpr size_t kPieceBytes = 16;  // a piece may add a mark
  Heap& heap_;
  MarkedText text_;
};

}  // namespace strata::text::jinja
