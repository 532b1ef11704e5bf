// POST /detokenize: {"tokens": [ids]} -> {"content"}. Special tokens come as their texts.
#include "base/format.h"
#include "server/api/text_limit.h"
#include "server/core/endpoints/answered.h"
#include "server/core/endpoints/own.h"

namespace strata::server {
namespace {

class Detokenize final : public AnsweredEndpoint {
 public:
  std::string_view path() const override { return "/detokenize"; }

 protected:
  ApiResult<std::string> answer(const Json& body, const ServedModel& model) const override {
    const auto tokens = body.find("tokens");
    if (tokens == body.end() || !tokens->is_array()) {
      return invalid_request("tokens has to be an array of token ids", "tokens");
    }
    const auto most = static_cast<size_t>(max_tokens_of_text(model));
    RETURN_IF_ERROR(check_size(tokens->size(), most, "tokens", "tokens"));
    const int32_t n_vocab = model.tokenizer->vocab_size();
    std::vector<int32_t> ids;
    for (const Json& token : *tokens) {
      const bool whole = token.is_number_integer();
      const int64_t id = whole ? token.get<int64_t>() : -1;
      if (id < 0 || id >= n_vocab) {
        return invalid_request(format("tokens has to hold ids from 0 to {}", n_vocab - 1),
                               format("tokens[{}]", ids.size()));
      }
      ids.push_back(static_cast<int32_t>(id));
    }
    return dump({{"content", model.tokenizer->decode(ids, true)}});
  }
};

}  // namespace

const Endpoint& detokenize_endpoint() {
  static const Detokenize endpoint;
  return endpoint;
}

}  // namespace strata::server
