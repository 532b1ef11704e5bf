#include "cli/ids.h"

#include <charconv>

#include "base/format.h"
#include "cli/streams.h"

namespace strata::cli {

namespace {

constexpr std::string_view kSpace = " \t\n\r\v\f";
// More digits than a number of 32 bits has; leading zeros don't make an id.
constexpr size_t kMaxWordBytes = 64;

}  // namespace

Status IdParser::push(std::string_view block) {
  for (const char c : block) {
    if (kSpace.find(c) != std::string_view::npos) {
      if (!word_.empty()) RETURN_IF_ERROR(take_word());
    } else {
      word_ += c;
      if (word_.size() > kMaxWordBytes) return take_word();
    }
  }
  return {};
}

Status IdParser::take_word() {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(word_.data(), word_.data() + word_.size(), id);
  const bool whole = error == std::errc() && end == word_.data() + word_.size() && word_.size() <= kMaxWordBytes;
  if (!whole || id < 0 || id >= n_vocab_) {
    return Error{ErrorCode::kBadInput,
                 format("{}: entry {}, '{}', is not a token id; the model's are 0 to {}", origin_, ids_.size(),
                        printable(word_, 40), n_vocab_ - 1)};
  }
  ids_.push_back(id);
  word_.clear();
  return {};
}

Result<std::vector<int32_t>> IdParser::finish() {
  if (!word_.empty()) RETURN_IF_ERROR(take_word());
  return std::move(ids_);
}

Result<std::vector<int32_t>> read_ids(const std::string& path, int64_t n_vocab) {
  IdParser parser(n_vocab, input_text(path));
  RETURN_IF_ERROR(read_blocks(path, kMaxIdsBytes, [&](std::string_view block) { return parser.push(block); }));
  return parser.finish();
}

std::string ids_text(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (!text.empty()) text += ' ';
    text += std::to_string(id);
  }
  return text;
}

}  // namespace strata::cli
