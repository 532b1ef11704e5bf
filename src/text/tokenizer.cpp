#include "text/tokenizer.h"

#include <charconv>
#include <optional>

#include "base/format.h"
#include "base/log.h"
#include "text/fragment_encoder.h"
#include "text/special_tokens.h"
#include "text/utf8.h"

namespace strata::text {

struct Tokenizer::Parts {
  std::shared_ptr<const Vocabulary> vocabulary;
  TokenRoles roles;
  SpecialTokens all_specials;   // with parse_special
  SpecialTokens user_defined;   // without
  std::unique_ptr<const FragmentEncoder> encoder;
  std::vector<std::string> warnings;

  Status encode_plain(std::string_view text, bool opens, std::vector<int32_t>& ids) const;
};

namespace {

constexpr uint64_t kMaxTextBytes = UINT32_MAX - 1;

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
  ASSIGN_OR_RETURN(const EncoderKind* kind, find_encoder_kind(model));
  ASSIGN_OR_RETURN(Vocabulary loaded, Vocabulary::load(model));
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const RoleDefaults defaults, kind->defaults(model, warnings));
  ASSIGN_OR_RETURN(TokenRoles roles, load_roles(model, loaded, defaults));
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(loaded));
  ASSIGN_OR_RETURN(auto encoder, kind->make({.model = model, .vocabulary = vocabulary, .roles = roles}));
  ASSIGN_OR_RETURN(SpecialTokens all_specials, SpecialTokens::create(*vocabulary, true));
  ASSIGN_OR_RETURN(SpecialTokens user_defined, SpecialTokens::create(*vocabulary, false));
  for (const std::string& warning : warnings) log_warning("{}", warning);
  std::unique_ptr<const Parts> parts(new Parts{
      .vocabulary = vocabulary, .roles = std::move(roles), .all_specials = std::move(all_specials),
      .user_defined = std::move(user_defined), .encoder = std::move(encoder), .warnings = std::move(warnings)});
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

Status Tokenizer::Parts::encode_plain(std::string_view text, bool opens, std::vector<int32_t>& ids) const {
  std::string replaced;
  if (!is_valid_utf8(text)) {
    replaced = replace_invalid_utf8(text);
    text = replaced;
  }
  if (text.size() > kMaxTextBytes) return Error{ErrorCode::kBadInput, "the text is too long to be tokenised"};
  return encoder->encode(text, opens, ids);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return Error{ErrorCode::kBadInput, format("a text of {} can't be tokenised; the limit is 4 GiB",
                                              format_bytes(text.size()))};
  }
  std::vector<int32_t> ids;
  if (options.add_bos && bos() != kNoToken) ids.push_back(bos());
  bool opens = options.opens;
  const SpecialTokens& specials = options.parse_special ? parts_->all_specials : parts_->user_defined;
  for (const Fragment& fragment : specials.split(text)) {
    if (fragment.token != kNoToken) {
      ids.push_back(fragment.token);
    } else {
      RETURN_IF_ERROR(parts_->encode_plain(fragment.text, opens, ids));
    }
    opens = fragment.token != kNoToken;
  }
  return ids;
}

std::string Tokenizer::piece(int32_t id, bool render_special) const {
  const Vocabulary& vocabulary = *parts_->vocabulary;
  if (!vocabulary.contains(id)) return {};
  const std::string_view text = vocabulary.text(id);
  switch (vocabulary.type(id)) {
    case TokenType::kNormal: return parts_->encoder->bytes_of(text);
    case TokenType::kUserDefined: return std::string(text);
    case TokenType::kByte: {
      const std::optional<char> byte = byte_of_text(text);
      return byte ? std::string(1, *byte) : parts_->encoder->bytes_of(text);
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
  bool opens = parts_->encoder->adds_space();
  for (const int32_t id : ids) {
    const TokenType type = token_type(id);
    if (type == TokenType::kUnused) continue;
    const std::string bytes = piece(id, render_special);
    const bool drop = opens && type == TokenType::kNormal && bytes.starts_with(' ');
    text.append(bytes, drop ? 1 : 0);
    const bool stands_for_text = type == TokenType::kNormal || type == TokenType::kByte;
    opens = parts_->encoder->adds_space() && !stands_for_text;
  }
  return text;
}

int32_t Tokenizer::vocab_size() const { return parts_->vocabulary->size(); }
int32_t Tokenizer::bos() const { return parts_->roles.bos; }
int32_t Tokenizer::eos() const { return parts_->roles.eos; }
int32_t Tokenizer::eot() const { return parts_->roles.eot; }
bool Tokenizer::add_bos() const { return parts_->roles.add_bos; }
const std::vector<std::string>& Tokenizer::warnings() const { return parts_->warnings; }

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return parts_->vocabulary->contains(id) && parts_->roles.end_of_generation[static_cast<size_t>(id)];
}

TokenType Tokenizer::token_type(int32_t id) const {
  return parts_->vocabulary->contains(id) ? parts_->vocabulary->type(id) : TokenType::kUnused;
}

}  // namespace strata::text
