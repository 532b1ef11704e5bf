// POST /tokenize: {"content", "add_special": false, "parse_special": true, "with_pieces": false} -> {"tokens"}.
#include "server/api/text_limit.h"
#include "server/core/endpoints/answered.h"
#include "server/core/endpoints/own.h"

namespace strata::server {
namespace {

// The tree of values that it is would take ten times the memory.
std::string tokens_json(std::span<const int32_t> ids, const text::Tokenizer& tokenizer, bool with_pieces) {
  std::string json = "{\"tokens\":[";
  for (size_t i = 0; i < ids.size(); i++) {
    if (i > 0) json += ',';
    // Pieces need not be whole characters.
    json += with_pieces ? dump({{"id", ids[i]}, {"piece", tokenizer.piece(ids[i], true)}}) : std::to_string(ids[i]);
  }
  return json + "]}";
}

class Tokenize final : public AnsweredEndpoint {
 public:
  std::string_view path() const override { return "/tokenize"; }

 protected:
  ApiResult<std::string> answer(const Json& body, const ServedModel& model) const override {
    const auto content = body.find("content");
    if (content == body.end() || !content->is_string()) return invalid_request("content has to be a text", "content");
    ASSIGN_OR_RETURN(const bool add_special, switch_of(body, "add_special", false));
    ASSIGN_OR_RETURN(const bool parse_special, switch_of(body, "parse_special", true));
    ASSIGN_OR_RETURN(const bool with_pieces, switch_of(body, "with_pieces", false));
    const text::Tokenizer& tokenizer = *model.tokenizer;
    const auto& given = content->get_ref<const std::string&>();
    RETURN_IF_ERROR(check_size(given.size(), max_text_bytes(model), "bytes", "content"));
    const bool add_bos = add_special && tokenizer.add_bos();
    const auto ids = tokenizer.encode(given, {.parse_special = parse_special, .add_bos = add_bos});
    if (!ids.ok()) return from_engine(ids.error(), "content");
    return tokens_json(*ids, tokenizer, with_pieces);
  }
};

}  // namespace

const Endpoint& tokenize_endpoint() {
  static const Tokenize endpoint;
  return endpoint;
}

}  // namespace strata::server
