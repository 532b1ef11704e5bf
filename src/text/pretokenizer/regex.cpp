#include "text/pretokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/format.h"
#include "text/utf8.h"

namespace strata::text {

namespace {

// Steps of one match. The patterns need a few per character; a pattern that backtracks without end stops here.
constexpr uint32_t kMatchLimit = 100'000'000;
// Heap of one match in KiB, for the machine without a just-in-time compiler.
constexpr uint32_t kHeapLimitKib = 64 * 1024;

template <class T, void (*kFree)(T*)>
struct Deleter {
  void operator()(T* pointer) const { kFree(pointer); }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code, pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context, pcre2_match_context_free>>;

std::string error_text(int code) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(code, text, sizeof(text)) < 0) return "unknown error";
  return reinterpret_cast<const char*>(text);
}

// PCRE2's own \s counts U+180E, which lost the property White_Space in Unicode 6.3.
std::string with_white_space_property(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') out.append("\\p{White_Space}");
    else if (escaped == 'S') out.append("\\P{White_Space}");
    else out.append({'\\', escaped});
  }
  return out;
}

}  // namespace

class RegexPretokenizer::Pattern {
 public:
  static Result<std::unique_ptr<const Pattern>> compile(std::string_view pattern) {
    const std::string text = with_white_space_property(pattern);
    int code = 0;
    PCRE2_SIZE offset = 0;
    auto compiled = std::unique_ptr<Pattern>(new Pattern);
    compiled->code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr));
    if (!compiled->code_) {
      return Error{ErrorCode::kInternal, format("pre-tokenizer pattern \"{}\" does not compile, at {}: {}", pattern,
                                                offset, error_text(code))};
    }
    // Where there is no just-in-time compiler the match is interpreted, with the same result.
    (void)pcre2_jit_compile(compiled->code_.get(), PCRE2_JIT_COMPLETE);
    compiled->context_.reset(pcre2_match_context_create(nullptr));
    if (!compiled->context_) return Error{ErrorCode::kNoMemory, "no memory for a pre-tokenizer pattern"};
    pcre2_set_match_limit(compiled->context_.get(), kMatchLimit);
    pcre2_set_heap_limit(compiled->context_.get(), kHeapLimitKib);
    return std::unique_ptr<const Pattern>(std::move(compiled));
  }

  // Appends the ends of the matches in `piece` and of the gaps between them, moved by `base`.
  Status split(std::string_view piece, size_t base, pcre2_match_data* match, std::vector<size_t>& ends) const {
    size_t done = 0, from = 0;
    while (from < piece.size()) {
      const int rc = find(piece, from, match);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0) {
        return Error{ErrorCode::kInternal, format("the pre-tokenizer gave up at byte {} of {}: {}", base + from,
                                                  base + piece.size(), error_text(rc))};
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
      if (range[1] == range[0]) {
        // An empty match cuts nothing; looking goes on behind the next character.
        from = range[0] < piece.size() ? range[0] + utf8_char(piece.data() + range[0]).length : piece.size();
        continue;
      }
      if (range[0] > done) ends.push_back(base + range[0]);
      ends.push_back(base + range[1]);
      done = from = range[1];
    }
    if (done < piece.size()) ends.push_back(base + piece.size());
    return {};
  }

 private:
  Pattern() = default;

  int find(std::string_view piece, size_t from, pcre2_match_data* match) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    const int rc = pcre2_match(code_.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK, match, context_.get());
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(code_.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                       context_.get());
  }

  Code code_;
  MatchContext context_;
};

RegexPretokenizer::RegexPretokenizer() = default;
RegexPretokenizer::~RegexPretokenizer() = default;

Result<std::unique_ptr<Pretokenizer>> RegexPretokenizer::create(const std::vector<std::string>& patterns) {
  auto made = std::unique_ptr<RegexPretokenizer>(new RegexPretokenizer);
  for (const std::string& pattern : patterns) {
    ASSIGN_OR_RETURN(auto compiled, Pattern::compile(pattern));
    made->patterns_.push_back(std::move(compiled));
  }
  return std::unique_ptr<Pretokenizer>(std::move(made));
}

Status RegexPretokenizer::split(std::string_view text, std::vector<size_t>& word_ends) const {
  if (text.empty()) return {};
  const MatchData match(pcre2_match_data_create(1, nullptr));  // where a match begins and ends; no groups
  if (!match) return Error{ErrorCode::kNoMemory, "no memory for a pre-tokenizer match"};
  std::vector<size_t> pieces = {text.size()}, finer;
  for (const auto& pattern : patterns_) {
    finer.clear();
    size_t begin = 0;
    for (const size_t end : pieces) {
      RETURN_IF_ERROR(pattern->split(text.substr(begin, end - begin), begin, match.get(), finer));
      begin = end;
    }
    pieces.swap(finer);
  }
  word_ends.insert(word_ends.end(), pieces.begin(), pieces.end());
  return {};
}

}  // namespace strata::text
