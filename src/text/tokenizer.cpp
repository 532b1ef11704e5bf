#include "text/tokenizer.h"

#include <charconv>
#include <optional>

#include "base/format.h"
#include "base/log.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pretokenizer/pretokenizer.h"
#include "text/special_tokens.h"
#include "text/utf8.h"

namespace strata::text {

struct Tokenizer::Parts {
  Vocabulary vocabulary;
  TokenRoles roles;
  BpeMerges merges;
  SpecialTokens all_specials;   // with parse_special
  SpecialTokens user_defined;   // without
  std::unique_ptr<Pretokenizer> pretokenizer;
  std::vector<std::string> warnings;

  Status encode_plain(std::string_view text, BpeScratch& scratch, std::vector<int32_t>& ids) const;
};

namespace {

constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kPreKey[] = "tokenizer.ggml.pre";
constexpr uint64_t kMaxTextBytes = UINT32_MAX - 1;

Status check_kind(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const std::string kind, model.require_string(kModelKey));
  if (kind == "gpt2") return {};
  return Error{ErrorCode::kUnsupported,
               format("{}: {} is \"{}\"; only \"gpt2\" (byte-level BPE) is supported", model.path(), kModelKey,
                      printable(kind))};
}

// The pre-tokenizer that the file names, else the default one with a warning.
Result<std::unique_ptr<Pretokenizer>> choose_pretokenizer(const gguf::Model& model,
                                                          std::vector<std::string>& warnings) {
  const bool named = model.find(kPreKey) != nullptr;
  ASSIGN_OR_RETURN(const std::string name, model.string_or(kPreKey, kDefaultPretokenizer));
  const PretokenizerRow* row = find_pretokenizer(name);
  if (row == nullptr || row->name == kDefaultPretokenizer) {
    const std::string given = named ? format("is \"{}\"", printable(name)) : "is missing";
    const char* known = row != nullptr ? "" : ", which is not known";
    warnings.push_back(format("{}: {} {}{}: text is split by the default rules, which may not be those the model was "
                              "trained with, and answers may be worse",
                              model.path(), kPreKey, given, known));
    row = find_pretokenizer(kDefaultPretokenizer);
    ASSERT(row != nullptr);
  }
  return row->make();
}

// The byte of a token text like <0x0A>.
std::optional<char> byte_of_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const gguf::Model& model) {
  RETURN_IF_ERROR(check_kind(model));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::load(model));
  ASSIGN_OR_RETURN(TokenRoles roles, load_roles(model, vocabulary));
  ASSIGN_OR_RETURN(BpeMerges merges, BpeMerges::load(model, vocabulary));
  ASSIGN_OR_RETURN(SpecialTokens all_specials, SpecialTokens::create(vocabulary, true));
  ASSIGN_OR_RETURN(SpecialTokens user_defined, SpecialTokens::create(vocabulary, false));
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(std::unique_ptr<Pretokenizer> pretokenizer, choose_pretokenizer(model, warnings));
  for (const std::string& warning : warnings) log_warning("{}", warning);
  std::unique_ptr<const Parts> parts(new Parts{
      .vocabulary = std::move(vocabulary), .roles = std::move(roles), .merges = std::move(merges),
      .all_specials = std::move(all_specials), .user_defined = std::move(user_defined),
      .pretokenizer = std::move(pretokenizer), .warnings = std::move(warnings)});
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

Status Tokenizer::Parts::encode_plain(std::string_view text, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  std::string replaced;
  if (!is_valid_utf8(text)) {
    replaced = replace_invalid_utf8(text);
    text = replaced;
  }
  if (text.size() > kMaxTextBytes) return Error{ErrorCode::kBadInput, "the text is too long to be tokenised"};
  std::vector<size_t> word_ends;
  RETURN_IF_ERROR(pretokenizer->split(text, word_ends));
  size_t begin = 0;
  for (const size_t end : word_ends) {
    RETURN_IF_ERROR(merges.encode_word(text.substr(begin, end - begin), scratch, ids));
    begin = end;
  }
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return Error{ErrorCode::kBadInput, format("a text of {} can't be tokenised; the limit is 4 GiB",
                                              format_bytes(text.size()))};
  }
  std::vector<int32_t> ids;
  if (options.add_bos && bos() != kNoToken) ids.push_back(bos());
  BpeScratch scratch;
  const SpecialTokens& specials = options.parse_special ? parts_->all_specials : parts_->user_defined;
  for (const Fragment& fragment : specials.split(text)) {
    if (fragment.token != kNoToken) {
      ids.push_back(fragment.token);
    } else {
      RETURN_IF_ERROR(parts_->encode_plain(fragment.text, scratch, ids));
    }
  }
  return ids;
}

std::string Tokenizer::piece(int32_t id, bool render_special) const {
  const Vocabulary& vocabulary = parts_->vocabulary;
  if (!vocabulary.contains(id)) return {};
  const std::string_view text = vocabulary.text(id);
  switch (vocabulary.type(id)) {
    case TokenType::kNormal: return bytes_of_text(text);
    case TokenType::kUserDefined: return std::string(text);
    case TokenType::kByte: {
      const std::optional<char> byte = byte_of_text(text);
      return byte ? std::string(1, *byte) : bytes_of_text(text);
    }
    case TokenType::kControl:
    case TokenType::kUnknown: {
      const bool shown = render_special || parts_->roles.always_shown[static_cast<size_t>(id)];
      return shown ? std::string(text) : std::string();
    }
    case TokenType::kUnused: break;
  }
  return {};
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool render_special) const {
  std::string text;
  for (const int32_t id : ids) text += piece(id, render_special);
  return text;
}

int32_t Tokenizer::vocab_size() const { return parts_->vocabulary.size(); }
int32_t Tokenizer::bos() const { return parts_->roles.bos; }
int32_t Tokenizer::eos() const { return parts_->roles.eos; }
int32_t Tokenizer::eot() const { return parts_->roles.eot; }
bool Tokenizer::add_bos() const { return parts_->roles.add_bos; }
const std::vector<std::string>& Tokenizer::warnings() const { return parts_->warnings; }

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return parts_->vocabulary.contains(id) && parts_->roles.end_of_generation[static_cast<size_t>(id)];
}

TokenType Tokenizer::token_type(int32_t id) const {
  return parts_->vocabulary.contains(id) ? parts_->vocabulary.type(id) : TokenType::kUnused;
}

}  // namespace strata::text
