#include "text/detokenizer.h"

#include "text/utf8.h"

namespace strata::text {

std::string StreamDecoder::push(std::string_view bytes) {
  held_.append(bytes);
  const std::string all = std::move(held_);
  held_.clear();
  return take(all, false);
}

std::string StreamDecoder::flush() {
  const std::string all = std::move(held_);
  held_.clear();
  return take(all, true);
}

std::string StreamDecoder::take(std::string_view bytes, bool at_end) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    const std::string_view front = bytes.substr(0, step.length);
    if (step.kind == Utf8Kind::kIncomplete && !at_end) {
      held_ = front;
      return out;
    }
    if (step.kind == Utf8Kind::kCharacter || invalid_ == InvalidBytes::kKeep) {
      out.append(front);
    } else {
      for (size_t i = 0; i < front.size(); ++i) out.append(kReplacement);
    }
    bytes.remove_prefix(front.size());
  }
  return out;
}

}  // namespace strata::text
