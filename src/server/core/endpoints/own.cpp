#include "server/core/endpoints/own.h"

namespace strata::server {

std::span<const Endpoint* const> own_endpoints() {
  static const Endpoint* const rows[] = {&tokenize_endpoint(), &detokenize_endpoint(), &apply_template_endpoint()};
  return rows;
}

}  // namespace strata::server
