#include "text/jinja/texts.h"

#include <algorithm>

#include "text/jinja/notation.h"
#include "text/jinja/text_builder.h"
#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

// Ranges of the parts between occurrences of a separator.
std::vector<Range> parts_between(Heap& heap, std::string_view text, std::string_view separator) {
  std::vector<Range> parts;
  size_t begin = 0;
  for (size_t at = find_text(text, separator); at != std::string_view::npos; at = find_text(text, separator, begin)) {
    heap.step();
    parts.push_back({begin, at});
    begin = at + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<Range> words(Heap& heap, std::string_view text) {
  std::vector<Range> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = utf8_char(text.data() + at);
    if (is_space(character.code_point) == inside) {
      if (inside) {
        heap.step();
        parts.push_back({begin, at});
      }
      inside = !inside;
      begin = at;
    }
    at += character.length;
  }
  if (inside) parts.push_back({begin, text.size()});
  return parts;
}

// Joins what lies beyond the first (or last) `most` splits into one part. Of words, it keeps the white space at the
// outer end of the text.
void limit_parts(std::vector<Range>& parts, const SplitOptions& options, size_t text_size) {
  if (options.most < 0 || parts.size() <= static_cast<size_t>(options.most)) return;
  const auto most = static_cast<size_t>(options.most);
  const bool by_space = options.separator == nullptr;
  if (options.from_end) {
    const size_t merged = parts.size() - 1 - most;
    parts[merged].begin = by_space ? 0 : parts[0].begin;
    parts.erase(parts.begin(), parts.begin() + static_cast<int64_t>(merged));
  } else {
    parts[most].end = by_space ? text_size : parts.back().end;
    parts.resize(most + 1);
  }
}

Value list_of(Heap& heap, const MarkedText& text, const std::vector<Range>& parts) {
  Value out = heap.list({});
  for (const Range& part : parts) {
    heap.take_memory(part.end - part.begin);
    heap.append(out.items(), heap.text(text.slice(part.begin, part.end)));
  }
  return out;
}

// Upper case where `starts_word(the character before, empty at the begin)` says so, else lower case.
template <class StartsWord>
Value titled(Heap& heap, const MarkedText& text, const StartsWord& starts_word) {
  std::string previous;
  return change_runs(heap, text, [&](std::string_view run) {
    std::string out;
    for (size_t at = 0; at < run.size();) {
      const std::string_view character = run.substr(at, utf8_char(run.data() + at).length);
      out += starts_word(previous) ? to_upper(character) : to_lower(character);
      previous = character;
      at += character.size();
    }
    return out;
  });
}

}  // namespace

Value trim_text(Heap& heap, const MarkedText& text, Side side, const MarkedText* set) {
  heap.look_at(text.size());
  if (set != nullptr) heap.look_at(set->size() * 64);
  const Range kept = set == nullptr ? trimmed(text.bytes(), side) : trimmed(text.bytes(), side, set->bytes());
  if (set != nullptr) {
    const size_t dropped = text.size() - (kept.end - kept.begin);
    heap.step(static_cast<int64_t>(std::min<uint64_t>(uint64_t{dropped} * set->size() / 16, INT64_MAX / 2)));
  }
  return heap.text(text.slice(kept.begin, kept.end));
}

Value split_text(Heap& heap, const MarkedText& text, const SplitOptions& options) {
  heap.look_at(text.size());
  if (options.separator == nullptr) {
    std::vector<Range> parts = words(heap, text.bytes());
    limit_parts(parts, options, text.size());
    return list_of(heap, text, parts);
  }
  if (options.separator->empty()) fail("split(): the separator is empty");
  std::vector<Range> parts = parts_between(heap, text.bytes(), options.separator->bytes());
  limit_parts(parts, options, text.size());
  return list_of(heap, text, parts);
}

Value split_text_lines(Heap& heap, const MarkedText& text, bool keep_ends) {
  heap.look_at(text.size());
  std::vector<Range> parts;
  const std::string& bytes = text.bytes();
  for (size_t begin = 0; begin < bytes.size();) {
    heap.step();
    const size_t end = std::min(bytes.find_first_of("\n\r\v\f\x1c\x1d\x1e", begin), bytes.size());
    const size_t n = end == bytes.size() ? 0 : bytes.compare(end, 2, "\r\n") == 0 ? 2 : 1;
    parts.push_back({begin, keep_ends ? end + n : end});
    begin = end + n;
  }
  return list_of(heap, text, parts);
}

Value replace_text(Heap& heap, const MarkedText& text, const MarkedText& old, const MarkedText& replacement,
                   int64_t most) {
  heap.look_at(text.size());
  TextBuilder out(heap);
  size_t copied = 0;
  size_t at = find_text(text.bytes(), old.bytes());
  for (int64_t n = 0; at != std::string::npos && n != most; ++n) {
    heap.step();
    out.append(text, copied, at);
    out.append(replacement);
    copied = at + old.size();
    // An empty `old` is found in front of every character and at the end.
    if (old.empty() && at == text.size()) break;
    const size_t next = old.empty() ? at + utf8_char(text.bytes().data() + at).length : copied;
    at = find_text(text.bytes(), old.bytes(), next);
  }
  out.append(text, copied, text.size());
  return out.finish();
}

Value join_texts(Heap& heap, std::span<const Value> items, const MarkedText& separator) {
  TextBuilder out(heap);
  for (size_t i = 0; i < items.size(); ++i) {
    heap.step();
    if (i > 0) out.append(separator);
    out.append(to_string(heap, items[i]).text());
  }
  return out.finish();
}

Value upper_text(Heap& heap, const MarkedText& text) { return change_runs(heap, text, to_upper); }
Value lower_text(Heap& heap, const MarkedText& text) { return change_runs(heap, text, to_lower); }

Value capitalized(Heap& heap, const MarkedText& text) {
  bool first = true;
  return change_runs(heap, text, [&first](std::string_view run) {
    if (!first) return to_lower(run);
    first = false;
    const size_t length = utf8_char(run.data()).length;
    return to_upper(run.substr(0, length)) + to_lower(run.substr(length));
  });
}

Value python_title(Heap& heap, const MarkedText& text) {
  return titled(heap, text, [](const std::string& previous) { return to_upper(previous) == to_lower(previous); });
}

Value jinja_title(Heap& heap, const MarkedText& text) {
  static constexpr std::string_view kOpening = "-({[<";
  return titled(heap, text, [](const std::string& previous) {
    return previous.empty() || is_space(utf8_char(previous.data()).code_point) ||
           kOpening.find(previous) != std::string_view::npos;
  });
}

}  // namespace strata::text::jinja
