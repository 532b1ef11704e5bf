// POST /tokenize: {"content", "add_special": false, "parse_special": true, "with_pieces": false} -> {"tokens"}.
#include "server/core/endpoints/answered.h"
#include "server/core/endpoints/own.h"

namespace strata::server {
namespace {

using Json = nlohmann::ordered_json;

class Tokenize final : public AnsweredEndpoint {
 public:
  std::string_view path() const override { return "/tokenize"; }

 protected:
  ApiResult<Json> answer(const Json& body, const ServedModel& model) const override {
    const auto content = body.find("content");
    if (content == body.end() || !content->is_string()) return invalid_request("content has to be a text", "content");
    ASSIGN_OR_RETURN(const bool add_special, switch_of(body, "add_special", false));
    ASSIGN_OR_RETURN(const bool parse_special, switch_of(body, "parse_special", true));
    ASSIGN_OR_RETURN(const bool with_pieces, switch_of(body, "with_pieces", false));
    const text::Tokenizer& tokenizer = *model.tokenizer;
    const auto ids = tokenizer.encode(content->get_ref<const std::string&>(),
                                      {.parse_special = parse_special, .add_bos = add_special && tokenizer.add_bos()});
    if (!ids.ok()) return from_engine(ids.error(), "content");
    if (!with_pieces) return Json{{"tokens", *ids}};
    Json tokens = Json::array();
    for (const int32_t id : *ids) tokens.push_back({{"id", id}, {"piece", tokenizer.piece(id, true)}});
    return Json{{"tokens", std::move(tokens)}};
  }
};

}  // namespace

const Endpoint& tokenize_endpoint() {
  static const Tokenize endpoint;
  return endpoint;
}

}  // namespace strata::server
