// SentencePiece-style vocabularies: spaces are written as U+2581, and text that opens gets one in front, if the model
// wants it. Pieces may reach over words, so the whole text between special tokens is segmented at once.
#include "base/format.h"
#include "text/fragment_encoder.h"
#include "text/spm.h"

namespace strata::text {

namespace {

constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // U+2581
// Segmentation needs some 40 bytes of memory for each character.
constexpr size_t kMaxFragmentBytes = size_t{64} << 20;

// Ids that files without keys mean.
constexpr int32_t kKeylessUnknown = 0, kKeylessBos = 1, kKeylessEos = 2;

std::string with_space_signs(std::string_view text, bool prefix) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  if (prefix) out += kSpaceSign;
  for (const char c : text) {
    if (c == ' ') out += kSpaceSign;
    else out.push_back(c);
  }
  return out;
}

class SpmEncoder final : public FragmentEncoder {
 public:
  SpmEncoder(SpmPieces pieces, bool adds_space) : pieces_(std::move(pieces)), adds_space_(adds_space) {}

  Status encode(std::string_view text, bool opens, std::vector<int32_t>& ids) const override {
    if (text.size() > kMaxFragmentBytes) {
      return Error{ErrorCode::kBadInput, format("a text of {} without special tokens can't be tokenised with a "
                                                "SentencePiece vocabulary; the limit is {}",
                                                format_bytes(text.size()), format_bytes(kMaxFragmentBytes))};
    }
    return pieces_.encode(with_space_signs(text, opens && adds_space_), ids);
  }

  std::string bytes_of(std::string_view token_text) const override {
    std::string bytes;
    for (size_t at; (at = token_text.find(kSpaceSign)) != std::string_view::npos;) {
      bytes.append(token_text.substr(0, at)).push_back(' ');
      token_text.remove_prefix(at + kSpaceSign.size());
    }
    return bytes.append(token_text);
  }

  bool adds_space() const override { return adds_space_; }

 private:
  SpmPieces pieces_;
  bool adds_space_;
};

}  // namespace

Result<RoleDefaults> spm_defaults(const gguf::Model&, std::vector<std::string>&) {
  return RoleDefaults{.bos = kKeylessBos, .eos = kKeylessEos, .unknown = kKeylessUnknown, .add_bos = true};
}

Result<std::unique_ptr<const FragmentEncoder>> make_spm_encoder(const EncoderParts& parts) {
  ASSIGN_OR_RETURN(const bool adds_space, parts.model.bool_or("tokenizer.ggml.add_space_prefix", true));
  ASSIGN_OR_RETURN(SpmPieces pieces, SpmPieces::load(parts.model, parts.vocabulary, parts.roles.unknown));
  return std::unique_ptr<const FragmentEncoder>(std::make_unique<SpmEncoder>(std::move(pieces), adds_space));
}

}  // namespace strata::text
