// GET /v1/models and /v1/models/{id}, in a shape that clients of OpenAI and of Anthropic both read.
#include <ctime>

#include "base/format.h"
#include "server/api/endpoints/answered.h"
#include "server/api/endpoints/endpoints.h"
#include "server/api/json.h"

namespace strata::server {
namespace {

std::string iso_time(int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json describe(const ServedModel& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "strata"},
          {"type", "model"},
          {"display_name", model.id},
          {"created_at", iso_time(model.created)},
          {"context_length", model.context},
          {"max_model_len", model.context}};
}

class ListModels final : public Endpoint {
 public:
  std::string_view method() const override { return "GET"; }
  std::string_view path() const override { return "/v1/models"; }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall&, const ServedModel& model, ReplySink& sink) const override {
    return answered(sink, dump({{"object", "list"},
                                {"data", Json::array({describe(model)})},
                                {"has_more", false},
                                {"first_id", model.id},
                                {"last_id", model.id}}));
  }
};

class GetModel final : public Endpoint {
 public:
  std::string_view method() const override { return "GET"; }
  std::string_view path() const override { return "/v1/models/{id}"; }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const override {
    if (call.tail == model.id) return answered(sink, dump(describe(model)));
    return not_found(format("there is no model '{}' here; the one that is served is '{}'", printable(call.tail),
                            model.id), "model_not_found");
  }
};

}  // namespace

const Endpoint& list_models() {
  static const ListModels endpoint;
  return endpoint;
}

const Endpoint& get_model() {
  static const GetModel endpoint;
  return endpoint;
}

}  // namespace strata::server
