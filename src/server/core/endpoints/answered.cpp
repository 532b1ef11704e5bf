#include "server/core/endpoints/answered.h"

#include "base/format.h"

namespace strata::server {
namespace {

using Json = nlohmann::ordered_json;

class Answered final : public Exchange {
 public:
  std::span<const GenerationJob> jobs() const override { return {}; }
  void on_text(size_t, std::string_view) override {}
  void on_finish(size_t, const engine::RequestResult&) override {}
  void refuse(const ApiError&) override {}
};

}  // namespace

ApiResult<std::unique_ptr<Exchange>> AnsweredEndpoint::open(const ApiCall& call, const ServedModel& model,
                                                            ReplySink& sink) const {
  const Json body = Json::parse(call.body, nullptr, false);
  if (!body.is_object()) return invalid_request("the body is not a JSON object", "", "invalid_json");
  ASSIGN_OR_RETURN(const Json json, answer(body, model));
  // Pieces of tokens need not be whole characters.
  sink.json(200, json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return std::unique_ptr<Exchange>(std::make_unique<Answered>());
}

ApiResult<bool> switch_of(const Json& body, const char* name, bool fallback) {
  const auto it = body.find(name);
  if (it == body.end() || it->is_null()) return fallback;
  if (!it->is_boolean()) return invalid_request(format("{} has to be true or false", name), name);
  return it->get<bool>();
}

}  // namespace strata::server
