// A server in this process, on a port of its own, over a stub.
#pragma once

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "server/core/server.h"
#include "server/support/plain_endpoint.h"
#include "server/support/stub_generator.h"
#include "server/support/wire.h"

namespace strata::server {

class Running {
 public:
  explicit Running(const StubOptions& stub = {}, ServerOptions options = {},
                   std::vector<const Endpoint*> endpoints = plain_endpoints()) {
    options.address.port = 0;
    options.http.tick_ms = 10;
    auto listening = Server::listen(options);
    if (!listening.ok()) {
      ADD_FAILURE() << listening.error().message;
      return;
    }
    server = std::move(listening).value();
    auto generator = std::make_unique<StubGenerator>(stub);
    stub_ = generator.get();
    server->serve(std::move(generator), std::move(endpoints), nullptr);
  }

  StubGenerator& stub() { return *stub_; }
  test::Wire connect(int receive_buffer = 0) { return test::Wire(server->port(), receive_buffer); }
  // One request on a connection of its own.
  test::WireAnswer ask(const std::string& request) {
    test::Wire wire = connect();
    if (!wire.send(request)) ADD_FAILURE() << "cannot send";
    const auto answer = wire.answer(request.starts_with("HEAD"));
    EXPECT_TRUE(answer) << "no answer";
    return answer.value_or(test::WireAnswer{});
  }

  std::unique_ptr<Server> server;

 private:
  StubGenerator* stub_ = nullptr;
};

// Whether it comes to be so within half a minute.
inline bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 30'000; i++) {
    if (condition()) return true;
    real_clock().sleep_ns(1'000'000);
  }
  return false;
}

}  // namespace strata::server
