#include "server/http/http_server.h"

#include <condition_variable>
#include <list>
#include <unordered_map>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/sync.h"
#include "server/http/connection.h"
#include "server/http/message.h"

namespace strata::server::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCodeOf = boost::system::error_code;

// A client that has vanished without a word is noticed after this.
constexpr unsigned kUserTimeoutMs = 60'000;

void set_socket_options(tcp::socket& socket, const HttpOptions& options) {
  ErrorCodeOf ignored;
  socket.set_option(tcp::no_delay(true), ignored);  // a token is sent when it is there
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  static_cast<void>(
      ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs));
  if (options.send_buffer_bytes > 0) {
    socket.set_option(asio::socket_base::send_buffer_size(options.send_buffer_bytes), ignored);
  }
}

}  // namespace

struct HttpServer::Parts {
  Parts(const AccessRules& access_rules, const HttpOptions& http_options)
      : rules(access_rules),
        options(http_options),
        budget(std::make_shared<BodyBudget>(static_cast<uint64_t>(options.max_body_budget) * rules.max_body_bytes)),
        acceptor(io),
        timer(io) {}

  void accept();
  void on_accepted(const ErrorCodeOf& error, tcp::socket socket);
  void add(tcp::socket socket);
  bool make_room();
  void tick();
  void run();

  const AccessRules rules;
  const HttpOptions options;
  std::shared_ptr<BodyBudget> budget;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer timer;
  bool retry_accept = false;
  tcp::endpoint endpoint;
  std::atomic<bool> stopping{false};
  std::optional<ConnectionParts> shared;
  uint64_t n_requests = 0;

  // The oldest first. Held by the list until they are closed.
  using List = std::list<std::shared_ptr<Connection>>;
  List connections;
  std::unordered_map<const Connection*, List::iterator> places;
  mutable Mutex mutex;  // guards n_connections
  std::condition_variable_any changed;
  size_t n_connections = 0;
  std::optional<Thread> thread;
};

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const Address& address, const AccessRules& rules,
                                                       const HttpOptions& options) {
  auto parts = std::make_unique<Parts>(rules, options);
  ErrorCodeOf error;
  const auto found = tcp::resolver(parts->io).resolve(address.host, std::to_string(address.port),
                                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return strata::Error{ErrorCode::kBadInput,
                         format("--host {}: no such address: {}", printable(address.host), error.message())};
  }
  const tcp::endpoint wanted = *found.begin();
  parts->acceptor.open(wanted.protocol(), error);
  if (!error) parts->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) parts->acceptor.bind(wanted, error);
  if (!error) parts->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    const char* hint = error == asio::error::address_in_use ? "; another program listens there: choose a --port"
                       : error == asio::error::access_denied ? "; ports below 1024 are for root: choose a --port"
                                                             : "";
    const bool not_ours = error == asio::error::address_family_not_supported ||
                          error.value() == EADDRNOTAVAIL;
    return strata::Error{not_ours ? ErrorCode::kBadInput : ErrorCode::kIo,
                         format("cannot listen on {}: {}{}",
                                authority_text(printable(address.host), address.port), error.message(), hint)};
  }
  parts->endpoint = parts->acceptor.local_endpoint(error);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::~HttpServer() {
  if (!parts_->thread) return;
  asio::post(parts_->io, [parts = parts_.get()] {
    ErrorCodeOf ignored;
    parts->stopping.store(true);
    parts->acceptor.close(ignored);
    parts->timer.cancel();
    while (!parts->connections.empty()) {
      const auto connection = parts->connections.front();
      connection->drop();
    }
  });
  parts_->thread->join();
}

uint16_t HttpServer::port() const { return parts_->endpoint.port(); }

bool HttpServer::is_loopback() const { return parts_->endpoint.address().is_loopback(); }

std::string HttpServer::url() const {
  const auto& address = parts_->endpoint.address();
  std::string host = address.to_string();
  if (address.is_unspecified()) host = address.is_v6() ? "::1" : "127.0.0.1";
  return "http://" + authority_text(host, port());
}

void HttpServer::serve(Handler& handler) {
  Parts& parts = *parts_;
  ASSERT(!parts.thread);
  // Unlike those of another run, so that logs can be told apart.
  const uint64_t run = static_cast<uint64_t>(std::time(nullptr)) & 0xffffffff;
  parts.shared.emplace(ConnectionParts{
      .io = parts.io,
      .options = parts.options,
      .rules = parts.rules,
      .handler = handler,
      .budget = parts.budget,
      .stopping = parts.stopping,
      .closed =
          [&parts](Connection& connection) {
            const auto place = parts.places.find(&connection);
            if (place == parts.places.end()) return;
            parts.connections.erase(place->second);
            parts.places.erase(place);
            const LockGuard lock(parts.mutex);
            parts.n_connections--;
            parts.changed.notify_all();
          },
      .make_id = [&parts, run] { return format("req-{:08x}-{}", run, ++parts.n_requests); },
  });
  parts.accept();
  parts.tick();
  parts.thread.emplace([&parts] { parts.run(); });
}

// What a handler throws (only for want of memory) ends with the connection that it was for, not with the server.
void HttpServer::Parts::run() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      log_error("a connection failed: {}", error.what());
    }
  }
}

void HttpServer::Parts::accept() {
  acceptor.async_accept([this](const ErrorCodeOf& error, tcp::socket socket) {
    on_accepted(error, std::move(socket));
  });
}

void HttpServer::Parts::on_accepted(const ErrorCodeOf& error, tcp::socket socket) {
  if (!acceptor.is_open() || error == asio::error::operation_aborted) return;
  if (!error) {
    if (connections.size() < options.max_connections || make_room()) add(std::move(socket));
    accept();
    return;
  }
  // Without descriptors the same error would come at once, again and again. Those that ask for nothing make room.
  log_warning("cannot accept a connection: {}", error.message());
  make_room();
  retry_accept = true;
}

void HttpServer::Parts::add(tcp::socket socket) {
  set_socket_options(socket, options);
  auto connection = std::make_shared<Connection>(std::move(socket), *shared);
  places[connection.get()] = connections.insert(connections.end(), connection);
  {
    const LockGuard lock(mutex);
    n_connections++;
  }
  connection->start();
}

// Ends the oldest connection that has not asked for anything yet. Whether there was one.
bool HttpServer::Parts::make_room() {
  for (const auto& connection : connections) {
    if (!connection->is_spare()) continue;
    const std::shared_ptr<Connection> spare = connection;
    spare->drop();
    return true;
  }
  return false;
}

void HttpServer::Parts::tick() {
  const int64_t now_ns = real_clock().now_ns();
  for (auto next = connections.begin(); next != connections.end();) {
    const std::shared_ptr<Connection> connection = *next++;  // it may go
    connection->tick(now_ns);
  }
  if (stopping.load() && connections.empty()) return;
  if (std::exchange(retry_accept, false) && acceptor.is_open()) accept();
  timer.expires_after(std::chrono::milliseconds(options.tick_ms));
  timer.async_wait([this](const ErrorCodeOf& error) {
    if (!error) tick();
  });
}

void HttpServer::stop() {
  asio::post(parts_->io, [parts = parts_.get()] {
    ErrorCodeOf ignored;
    parts->stopping.store(true);
    parts->acceptor.close(ignored);
  });
}

bool HttpServer::wait_until_idle(int64_t timeout_ms) {
  const int64_t end_ns = real_clock().now_ns() + timeout_ms * 1'000'000;
  Parts& parts = *parts_;
  parts.mutex.lock();
  while (parts.n_connections > 0 && real_clock().now_ns() < end_ns) {
    parts.changed.wait_for(parts.mutex, std::chrono::milliseconds(20));
  }
  const bool idle = parts.n_connections == 0;
  parts.mutex.unlock();
  return idle;
}

size_t HttpServer::connections() const {
  const LockGuard lock(parts_->mutex);
  return parts_->n_connections;
}

}  // namespace strata::server::http
