#include "text/jinja/marked_text.h"

#include <algorithm>

namespace strata::text::jinja {

MarkedText::MarkedText(std::string bytes, bool is_content) : bytes_(std::move(bytes)) {
  if (is_content) mark(0, bytes_.size());
}

void MarkedText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!spans_.empty() && spans_.back().end == begin) {
    spans_.back().end = end;
  } else {
    spans_.push_back({begin, end});
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  const size_t base = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  auto span = std::partition_point(other.spans_.begin(), other.spans_.end(),
                                   [begin](const Span& s) { return s.end <= begin; });
  for (; span != other.spans_.end() && span->begin < end; ++span) {
    mark(base + std::max(span->begin, begin) - begin, base + std::min(span->end, end) - begin);
  }
}

void MarkedText::append(std::string_view bytes, bool is_content) {
  const size_t base = bytes_.size();
  bytes_ += bytes;
  if (is_content) mark(base, bytes_.size());
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText out;
  out.append(*this, begin, end);
  return out;
}

}  // namespace strata::text::jinja
