// POST /v1/embeddings: refused, so that clients hear why.
#include "server/api/endpoints/endpoints.h"

namespace strata::server {
namespace {

class Embeddings final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/embeddings"; }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall&, const ServedModel&, ReplySink&) const override {
    return unsupported("this server makes no embeddings: the model that it runs generates text; point embedding "
                       "requests of your client at a server with an embedding model",
                       "model");
  }
};

}  // namespace

const Endpoint& embeddings() {
  static const Embeddings endpoint;
  return endpoint;
}

}  // namespace strata::server
