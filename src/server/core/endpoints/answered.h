// Endpoints whose answer is there at once.
#pragma once

#include <nlohmann/json.hpp>

#include "server/api/endpoint.h"

namespace strata::server {

class AnsweredEndpoint : public Endpoint {
 public:
  std::string_view method() const final { return "POST"; }
  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const final;
  std::string error_body(const ApiError& error) const final { return openai_error_body(error); }

 protected:
  // `body` is an object. The answer is the text of a JSON object.
  virtual ApiResult<std::string> answer(const nlohmann::ordered_json& body, const ServedModel& model) const = 0;
};

// The switch `name` of a body; `fallback` where it says nothing.
ApiResult<bool> switch_of(const nlohmann::ordered_json& body, const char* name, bool fallback);

}  // namespace strata::server
