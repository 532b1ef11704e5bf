#include "text/vocabulary.h"

#include "base/format.h"

namespace strata::text {

namespace {

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTypes[] = "tokenizer.ggml.token_type";
constexpr char kScores[] = "tokenizer.ggml.scores";

Error bad(const gguf::Model& model, const std::string& what) {
  return Error{ErrorCode::kBadInput, format("{}: {}", model.path(), what)};
}

// An array that goes with the tokens: nullptr when absent, an error unless it has a value for each of them.
Result<const gguf::Value*> find_parallel(const gguf::Model& model, const char* key, uint64_t n_tokens) {
  const gguf::Value* value = model.find(key);
  if (value == nullptr) return value;
  if (!value->is_array()) return bad(model, format("{} is not an array but {}", key, value_type_name(value->type())));
  if (value->count() < n_tokens) {
    return bad(model, format("{} ends at index {}, but there are {} tokens", key, value->count(), n_tokens));
  }
  return value;
}

}  // namespace

Result<Vocabulary> Vocabulary::load(const gguf::Model& model) {
  Vocabulary vocabulary;
  RETURN_IF_ERROR(vocabulary.load_texts(model));
  RETURN_IF_ERROR(vocabulary.load_types(model));
  ASSIGN_OR_RETURN(const gguf::Value* scores, find_parallel(model, kScores, vocabulary.types_.size()));
  if (scores != nullptr && scores->element_type() != gguf::ValueType::kFloat32) {
    return bad(model, format("{} holds {}, not f32", kScores, value_type_name(scores->element_type())));
  }
  return vocabulary;
}

Status Vocabulary::load_texts(const gguf::Model& model) {
  const gguf::Value* value = model.find(kTokens);
  if (value == nullptr) return bad(model, format("{} is missing: the file has no vocabulary", kTokens));
  if (!value->is_array() || value->element_type() != gguf::ValueType::kString) {
    return bad(model, format("{} is not an array of strings", kTokens));
  }
  if (value->count() == 0 || value->count() > kMaxTokens) {
    return bad(model, format("{} has {} entries; 1 to {} are possible", kTokens, value->count(), kMaxTokens));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, value->strings());
  offsets_.reserve(tokens.size() + 1);
  offsets_.push_back(0);
  for (const std::string_view token : tokens) {
    const std::string stand_in = token.empty() ? format("[EMPTY_{}]", offsets_.size() - 1) : std::string();
    const std::string_view text = token.empty() ? std::string_view(stand_in) : token;
    texts_.insert(texts_.end(), text.begin(), text.end());
    offsets_.push_back(texts_.size());
  }
  types_.assign(tokens.size(), TokenType::kNormal);
  ids_.reserve(tokens.size());
  for (int32_t id = 0; id < size(); ++id) {
    const auto [known, added] = ids_.emplace(text(id), id);
    if (!added) {
      return bad(model, format("{}[{}] has the same text as [{}]: \"{}\"", kTokens, id, known->second,
                               printable(text(id))));
    }
  }
  return {};
}

Status Vocabulary::load_types(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const gguf::Value* types, find_parallel(model, kTypes, types_.size()));
  if (types == nullptr) return {};
  for (size_t id = 0; id < types_.size(); ++id) {
    const Result<int64_t> type = types->as_int(id);
    if (!type.ok()) return bad(model, format("{}[{}]: {}", kTypes, id, type.error().message));
    if (*type < 1 || *type > 6) return bad(model, format("{}[{}] is {}; types are 1 to 6", kTypes, id, *type));
    types_[id] = static_cast<TokenType>(*type);
  }
  return {};
}

std::string_view Vocabulary::text(int32_t id) const {
  ASSERT(contains(id));
  const uint64_t begin = offsets_[static_cast<size_t>(id)];
  return {texts_.data() + begin, offsets_[static_cast<size_t>(id) + 1] - begin};
}

int32_t Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? kNoToken : found->second;
}

}  // namespace strata::text
