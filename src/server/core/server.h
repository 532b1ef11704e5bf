// A server: listens at once, answers 503 while its model is loaded, and ends in an order in which nothing is lost.
#pragma once

#include <memory>
#include <vector>

#include "server/core/generator.h"
#include "server/core/service.h"
#include "server/http/http_server.h"

namespace strata::server {

struct ServerOptions {
  http::Address address = {};
  http::AccessRules access = {};
  http::HttpOptions http = {};
  ServiceOptions service = {};
  bool allow_open = false;  // other machines may ask without a key
};

class Server {
 public:
  // Takes the port, before anybody begins to load a model. kBadInput for an address that other machines reach without
  // a key, unless that is allowed; else as http::HttpServer::listen().
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options);
  // Ends what is left: within a step of the generator.
  ~Server();

  std::string url() const { return http_->url(); }
  uint16_t port() const { return http_->port(); }

  // Begins to serve. Once. `stats` are the generator's, and outlive the server; may be null.
  void serve(std::unique_ptr<Generator> generator, std::vector<const Endpoint*> endpoints, const Stats* stats);
  const Generator& generator() const { return *generator_; }
  // Answers that are computed or wait.
  int64_t under_way() const { return service_->under_way(); }
  size_t connections() const { return http_->connections(); }

  // No request is taken any more. Those under way have so long; what is left then ends, and its clients are told.
  void shut_down(int64_t limit_ms);

 private:
  Server(const ServerOptions& options, std::unique_ptr<http::HttpServer> http);

  const ServerOptions options_;
  std::unique_ptr<http::HttpServer> http_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<Service> service_;
};

}  // namespace strata::server
