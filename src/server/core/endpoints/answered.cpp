#include "server/core/endpoints/answered.h"

#include "base/format.h"
#include "server/api/endpoints/answered.h"
#include "server/api/json.h"

namespace strata::server {

ApiResult<std::unique_ptr<Exchange>> AnsweredEndpoint::open(const ApiCall& call, const ServedModel& model,
                                                            ReplySink& sink) const {
  ASSIGN_OR_RETURN(const Json body, parse_object(call.body));
  ASSIGN_OR_RETURN(std::string json, answer(body, model));
  return answered(sink, std::move(json));
}

ApiResult<bool> switch_of(const Json& body, const char* name, bool fallback) {
  const auto it = body.find(name);
  if (it == body.end() || it->is_null()) return fallback;
  if (!it->is_boolean()) return invalid_request(format("{} has to be true or false", name), name);
  return it->get<bool>();
}

}  // namespace strata::server
