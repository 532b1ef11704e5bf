#include "server/core/server.h"

#include "base/format.h"

namespace strata::server {
namespace {

// For connections to send what they have and close, once nothing is computed any more.
constexpr int64_t kFarewellMs = 3'000;

}  // namespace

Server::Server(const ServerOptions& options, std::unique_ptr<http::HttpServer> http)
    : options_(options), http_(std::move(http)) {}

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options) {
  ASSIGN_OR_RETURN(auto http, http::HttpServer::listen(options.address, options.access, options.http));
  if (!http->is_loopback() && options.access.keys.empty() && !options.allow_open) {
    return Error{ErrorCode::kBadInput,
                 format("--host {} lets other machines in, and no key is asked for: give --api-key or --api-key-file, "
                        "or --allow-no-key if that is meant", printable(options.address.host))};
  }
  return std::unique_ptr<Server>(new Server(options, std::move(http)));
}

void Server::serve(std::unique_ptr<Generator> generator, std::vector<const Endpoint*> endpoints, const Stats* stats) {
  generator_ = std::move(generator);
  ServiceOptions service = options_.service;
  service.max_body_bytes = static_cast<int64_t>(options_.access.max_body_bytes);
  service_ = std::make_unique<Service>(*generator_, std::move(endpoints), stats, service, real_clock());
  service_->set_connections([http = http_.get()] { return http->connections(); });
  http_->serve(*service_);
}

void Server::shut_down(int64_t limit_ms) {
  service_->stop();
  http_->stop();
  if (http_->wait_until_idle(limit_ms)) return;
  service_->end_all();
  static_cast<void>(http_->wait_until_idle(kFarewellMs));
}

// Connections first: what they asked for is cancelled. Then the workers, who may still be queueing jobs; then the
// generator, which has told every job how it ended when it is gone; then what those jobs were told to.
Server::~Server() {
  http_.reset();
  if (service_ != nullptr) service_->finish_work();
  generator_.reset();
}

}  // namespace strata::server
