#include "cli/ids.h"

#include <charconv>

#include "base/format.h"

namespace strata::cli {

Result<std::vector<int32_t>> parse_ids(std::string_view text, int64_t n_vocab, const std::string& origin) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  std::vector<int32_t> ids;
  for (;;) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kSpace));
    text.remove_prefix(word.size());
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= n_vocab) {
      return Error{ErrorCode::kBadInput,
                   format("{}: entry {}, '{}', is not a token id; the model's are 0 to {}", origin, ids.size(),
                          printable(word, 40), n_vocab - 1)};
    }
    ids.push_back(id);
  }
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
