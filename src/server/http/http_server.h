// Listens, and runs the connections on a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/handler.h"
#include "server/http/options.h"

namespace strata::server::http {

struct Address {
  std::string host = "127.0.0.1";  // a name or an address
  uint16_t port = 8080;            // 0: one that is free
};

// Used by one thread, but for what the handler is told.
class HttpServer {
 public:
  // Takes the port; clients wait until serve(). kBadInput for a host that is none of this machine's, kIo for a port
  // that can't be had.
  static Result<std::unique_ptr<HttpServer>> listen(const Address& address, const AccessRules& rules,
                                                    const HttpOptions& options);
  // Drops what is left.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  // "http://127.0.0.1:8080"; of an address for all interfaces, one that works on this machine.
  std::string url() const;
  // Whether only this machine can reach it.
  bool is_loopback() const;

  // Begins to serve. Once; the handler outlives the server.
  void serve(Handler& handler);
  // No further connection or request is taken, and the port is free; those under way go on.
  void stop();
  // Waits until all connections have ended, at most so long. Whether they have.
  bool wait_until_idle(int64_t timeout_ms);
  size_t connections() const;

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace strata::server::http
