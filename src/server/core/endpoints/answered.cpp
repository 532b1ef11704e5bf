#include "server/core/endpoints/answered.h"

#include "base/format.h"
#include "server/api/endpoints/answered.h"
#include "server/api/json.h"

namespace strata::server {

ApiResult<std::unique_ptr<Exchange>> AnsweredEndpoint::open(const ApiCall& call, const ServedModel& model,
                                                            ReplySink& sink) const {
  const Json body = Json::parse(call.body, nullptr, false);
  if (!body.is_object()) return invalid_request("the body is not a JSON object", "", "invalid_json");
  ASSIGN_OR_RETURN(const Json json, answer(body, model));
  return answered(sink, dump(json));  // pieces of tokens need not be whole characters
}

ApiResult<bool> switch_of(const Json& body, const char* name, bool fallback) {
  const auto it = body.find(name);
  if (it == body.end() || it->is_null()) return fallback;
  if (!it->is_boolean()) return invalid_request(format("{} has to be true or false", name), name);
  return it->get<bool>();
}

}  // namespace strata::server
