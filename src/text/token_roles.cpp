#include "base/format.h"
#include "text/vocabulary.h"

namespace strata::text {

namespace {

// The end of a text in SentencePiece vocabularies, but HTML for struck text in others, where it is a normal token.
constexpr std::string_view kCloseStruck = "</s>";

// Tokens with one of these texts end an answer, whatever the keys say.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", kCloseStruck, "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>", "[e~["};

// End of turn, in order of preference, where no key names it.
constexpr std::string_view kEotTexts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<EOT>", "_<EOT>",
    "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>", "<end_of_utterance>"};

// Fill-in-the-middle padding, repository and file separators: an answer that runs into one of them is over.
constexpr std::string_view kFimEndTexts[] = {"<|fim_pad|>", "<|fim_repo|>", "<|repo_name|>", "<|file_sep|>"};
constexpr const char* kFimEndKeys[] = {"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                                       "tokenizer.ggml.fim_sep_token_id"};

// The harmony format marks the parts of a message with these; they are shown, or nothing would tell the parts apart.
constexpr std::string_view kHarmonyTexts[] = {"<|end|>", "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"};

class RoleFinder {
 public:
  RoleFinder(const gguf::Model& model, Vocabulary& vocabulary, const RoleDefaults& defaults)
      : model_(model), vocabulary_(vocabulary), defaults_(defaults) {
    roles_.end_of_generation.assign(static_cast<size_t>(vocabulary.size()), false);
    roles_.always_shown.assign(static_cast<size_t>(vocabulary.size()), false);
  }

  Result<TokenRoles> find() {
    const int32_t bos = if_of_type(defaults_.bos, TokenType::kControl);
    const int32_t eos = if_of_type(defaults_.eos, TokenType::kControl);
    const int32_t unknown = if_of_type(defaults_.unknown, TokenType::kUnknown);
    ASSIGN_OR_RETURN(roles_.bos, id_of_key("tokenizer.ggml.bos_token_id", bos));
    ASSIGN_OR_RETURN(roles_.eos, id_of_key("tokenizer.ggml.eos_token_id", eos));
    ASSIGN_OR_RETURN(roles_.unknown, id_of_key("tokenizer.ggml.unknown_token_id", unknown));
    ASSIGN_OR_RETURN(roles_.eot, id_of_key("tokenizer.ggml.eot_token_id", first_of(kEotTexts)));
    ASSIGN_OR_RETURN(const int32_t eom, id_of_key("tokenizer.ggml.eom_token_id", vocabulary_.find("<|eom_id|>")));
    ASSIGN_OR_RETURN(roles_.add_bos, model_.bool_or("tokenizer.ggml.add_bos_token", defaults_.add_bos));
    for (const int32_t id : {roles_.eos, roles_.eot, eom}) mark_end(id);
    RETURN_IF_ERROR(find_fim_ends());
    find_end_texts();
    find_harmony();
    return std::move(roles_);
  }

 private:
  Result<int32_t> id_of_key(const char* key, int32_t fallback) const {
    const gguf::Value* value = model_.find(key);
    if (value == nullptr) return fallback;
    const Result<int64_t> id = model_.require_int(key, INT64_MIN, INT64_MAX);
    if (!id.ok()) return id.error();
    if (*id < 0 || *id >= vocabulary_.size()) {
      return Error{ErrorCode::kBadInput, format("{}: {} is {}, outside the vocabulary of {} tokens (0 to {})",
                                                model_.path(), key, *id, vocabulary_.size(), vocabulary_.size() - 1)};
    }
    return static_cast<int32_t>(*id);
  }

  int32_t if_of_type(int32_t id, TokenType type) const {
    return vocabulary_.contains(id) && vocabulary_.type(id) == type ? id : kNoToken;
  }

  int32_t first_of(std::span<const std::string_view> texts) const {
    for (const std::string_view text : texts) {
      if (const int32_t id = vocabulary_.find(text); id != kNoToken) return id;
    }
    return kNoToken;
  }

  Status find_fim_ends() {
    for (const char* key : kFimEndKeys) {
      ASSIGN_OR_RETURN(const int32_t id, id_of_key(key, kNoToken));
      mark_end(id);
    }
    for (const std::string_view text : kFimEndTexts) mark_end(vocabulary_.find(text));
    return {};
  }

  void find_end_texts() {
    for (const std::string_view text : kEndTexts) {
      const int32_t id = vocabulary_.find(text);
      if (id == kNoToken || (text == kCloseStruck && vocabulary_.type(id) == TokenType::kNormal)) continue;
      mark_end(id);
      vocabulary_.set_type(id, TokenType::kControl);
    }
  }

  // There <|end|> ends a message, not the answer. The tokens stay control tokens, so that text of a user never becomes
  // one of them.
  void find_harmony() {
    const bool harmony = (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
    if (!harmony) return;
    for (const std::string_view text : kHarmonyTexts) {
      if (has(text)) roles_.always_shown[static_cast<size_t>(vocabulary_.find(text))] = true;
    }
    if (has("<|end|>")) roles_.end_of_generation[static_cast<size_t>(vocabulary_.find("<|end|>"))] = false;
  }

  bool has(std::string_view text) const { return vocabulary_.find(text) != kNoToken; }

  void mark_end(int32_t id) {
    if (id != kNoToken) roles_.end_of_generation[static_cast<size_t>(id)] = true;
  }

  const gguf::Model& model_;
  Vocabulary& vocabulary_;
  const RoleDefaults& defaults_;
  TokenRoles roles_;
};

}  // namespace

Result<TokenRoles> load_roles(const gguf::Model& model, Vocabulary& vocabulary, const RoleDefaults& defaults) {
  return RoleFinder(model, vocabulary, defaults).find();
}

}  // namespace strata::text
