// Byte-level BPE: a pre-tokenizer cuts the text into words, merges make tokens of the bytes of each.
#include "base/format.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/fragment_encoder.h"
#include "text/pretokenizer/pretokenizer.h"

namespace strata::text {

namespace {

constexpr char kPreKey[] = "tokenizer.ggml.pre";
// What files without keys mean by bos and eos (the vocabulary of Falcon).
constexpr int32_t kKeylessId = 11;

// The pre-tokenizer that the file names, else the default one.
Result<const PretokenizerRow*> choose_pretokenizer(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const std::string name, model.string_or(kPreKey, kDefaultPretokenizer));
  const PretokenizerRow* row = find_pretokenizer(name);
  if (row == nullptr) row = find_pretokenizer(kDefaultPretokenizer);
  ASSERT(row != nullptr);
  return row;
}

Status warn_of_default(const gguf::Model& model, std::vector<std::string>& warnings) {
  const bool named = model.find(kPreKey) != nullptr;
  ASSIGN_OR_RETURN(const std::string name, model.string_or(kPreKey, kDefaultPretokenizer));
  const std::string given = named ? format("is \"{}\"", printable(name)) : "is missing";
  const char* known = name == kDefaultPretokenizer ? "" : ", which is not known";
  warnings.push_back(format("{}: {} {}{}: text is split by the default rules, which may not be those the model was "
                            "trained with, and answers may be worse",
                            model.path(), kPreKey, given, known));
  return {};
}

class BpeEncoder final : public FragmentEncoder {
 public:
  struct Options {
    bool ignores_merges;
  };
  BpeEncoder(std::shared_ptr<const Vocabulary> vocabulary, std::unique_ptr<const Pretokenizer> pretokenizer,
             BpeMerges merges, Options options)
      : vocabulary_(std::move(vocabulary)), pretokenizer_(std::move(pretokenizer)), merges_(std::move(merges)),
        options_(options) {}

  Status encode(std::string_view text, bool, std::vector<int32_t>& ids) const override {
    std::vector<size_t> word_ends;
    RETURN_IF_ERROR(pretokenizer_->split(text, word_ends));
    BpeScratch scratch;
    std::string in_alphabet;
    size_t begin = 0;
    for (const size_t end : word_ends) {
      const std::string_view word = text.substr(begin, end - begin);
      begin = end;
      if (const int32_t id = whole_word(word, in_alphabet); id != kNoToken) {
        ids.push_back(id);
      } else {
        RETURN_IF_ERROR(merges_.encode_word(word, scratch, ids));
      }
    }
    return {};
  }

  std::string bytes_of(std::string_view token_text) const override { return bytes_of_text(token_text); }
  bool adds_space() const override { return false; }

 private:
  // The token that a word is, where merges are ignored for such words. `in_alphabet` is memory to use again.
  int32_t whole_word(std::string_view word, std::string& in_alphabet) const {
    if (!options_.ignores_merges) return kNoToken;
    in_alphabet.clear();
    for (const char byte : word) in_alphabet += byte_character(static_cast<uint8_t>(byte));
    const int32_t id = vocabulary_->find(in_alphabet);
    return id != kNoToken && is_plain(vocabulary_->type(id)) ? id : kNoToken;
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const Pretokenizer> pretokenizer_;
  BpeMerges merges_;
  Options options_;
};

}  // namespace

Result<RoleDefaults> bpe_defaults(const gguf::Model& model, std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const PretokenizerRow* row, choose_pretokenizer(model));
  if (row->name == kDefaultPretokenizer) RETURN_IF_ERROR(warn_of_default(model, warnings));
  return RoleDefaults{.bos = kKeylessId, .eos = kKeylessId, .unknown = kNoToken, .add_bos = row->adds_bos};
}

Result<std::unique_ptr<const FragmentEncoder>> make_bpe_encoder(const EncoderParts& parts) {
  ASSIGN_OR_RETURN(const PretokenizerRow* row, choose_pretokenizer(parts.model));
  ASSIGN_OR_RETURN(std::unique_ptr<Pretokenizer> pretokenizer, row->make());
  ASSIGN_OR_RETURN(BpeMerges merges, BpeMerges::load(parts.model, *parts.vocabulary));
  return std::unique_ptr<const FragmentEncoder>(
      std::make_unique<BpeEncoder>(parts.vocabulary, std::move(pretokenizer), std::move(merges),
                                   BpeEncoder::Options{.ignores_merges = row->ignores_merges}));
}

}  // namespace strata::text
