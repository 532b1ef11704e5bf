// What methods and filters do with texts; marks follow the bytes.
#pragma once

#include <cstdint>
#include <span>

#include "text/jinja/characters.h"
#include "text/jinja/value.h"

namespace strata::text::jinja {

// Without white space, or without the characters of `set`, at these sides.
Value trim_text(Heap& heap, const MarkedText& text, Side side, const MarkedText* set);

struct SplitOptions {
  const MarkedText* separator;  // null: runs of white space, none of which gives empty parts
  int64_t most;                 // splits; negative for all
  bool from_end;
};
Value split_text(Heap& heap, const MarkedText& text, const SplitOptions& options);
Value split_text_lines(Heap& heap, const MarkedText& text, bool keep_ends);

// The first `most` occurrences replaced, all where it is negative.
Value replace_text(Heap& heap, const MarkedText& text, const MarkedText& old, const MarkedText& replacement,
                   int64_t most);
// Items as str() gives them.
Value join_texts(Heap& heap, std::span<const Value> items, const MarkedText& separator);

Value upper_text(Heap& heap, const MarkedText& text);
Value lower_text(Heap& heap, const MarkedText& text);
Value capitalized(Heap& heap, const MarkedText& text);
// str.title(): a letter is upper case unless it follows a letter.
Value python_title(Heap& heap, const MarkedText& text);
// The filter title: a letter is upper case behind a blank, a hyphen or an opening bracket.
Value jinja_title(Heap& heap, const MarkedText& text);

}  // namespace strata::text::jinja
