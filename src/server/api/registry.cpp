#include "server/api/endpoints/endpoints.h"

namespace strata::server {

std::span<const Endpoint* const> endpoints() {
  static const Endpoint* const kEndpoints[] = {
      &chat_completions(), &completions(), &responses(), &messages(), &count_tokens(), &list_models(), &get_model(),
      &embeddings(),
  };
  return kEndpoints;
}

}  // namespace strata::server
