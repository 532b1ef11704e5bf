// Characters of texts: Python counts and cuts by code points, trims white space of Unicode, and changes case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace strata::text::jinja {

// Texts inside the engine are valid UTF-8; these rely on it.
int64_t count_characters(std::string_view text);
// Where each character begins, and at last the size of the text.
std::vector<size_t> character_starts(Heap& heap, std::string_view text);

// Where `what` begins in `text`, not before `from`; npos where it does not. In linear time, unlike string::find.
size_t find_text(std::string_view text, std::string_view what, size_t from = 0);

// What str.isspace() accepts.
bool is_space(uint32_t code_point);

struct Range {
  size_t begin, end;
};
enum class Side { kLeft, kRight, kBoth };
// What is left without white space at these sides, or without the characters of `set`.
Range trimmed(std::string_view text, Side side);
Range trimmed(std::string_view text, Side side, std::string_view set);

// Unicode's simple case mappings, one character for one, and SS for the sharp s.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

// Applies a change of case, or another that works on any cut of a text, to runs; marks stay.
template <class Change>
Value change_runs(Heap& heap, const MarkedText& text, const Change& change) {
  heap.look_at(text.size() * 4);
  heap.take_memory(text.size());
  MarkedText out;
  text.for_each_run([&](std::string_view run, bool is_content) { out.append(change(run), is_content); });
  return heap.text(std::move(out));
}

}  // namespace strata::text::jinja
