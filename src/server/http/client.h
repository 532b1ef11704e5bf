// A client of HTTP/1.1 for servers like this one: one request at a time on a connection, plain or streamed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strata::server::http {

struct Url {
  std::string host;
  uint16_t port = 80;
  std::string prefix = {};  // of all paths, without a slash at its end
};

// "http://host:8080/prefix"; without the scheme too. kUnsupported for https.
Result<Url> parse_url(std::string_view text);

struct ClientRequest {
  std::string method = "GET";
  std::string path;       // from the server's root on
  std::string body = {};  // JSON; empty for none
  std::string api_key = {};
};

// One thread. Connects when it first asks, and again when the server has closed in between.
class Client {
 public:
  explicit Client(Url url, int64_t timeout_ms = 600'000) : url_(std::move(url)), timeout_ms_(timeout_ms) {}
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Gets the body of an answer in pieces as they come; false: no more is wanted, and the connection is closed.
  using Sink = std::function<bool(std::string_view piece)>;
  // The status. kNotFound when there is no host of this name; kIo when the server can't be reached, goes away or says
  // nothing for the timeout; kCancelled when the sink or `stop` said so.
  Result<int> ask(const ClientRequest& request, const Sink& sink, const std::atomic<bool>* stop = nullptr);

 private:
  void close();
  Status connect();
  Status send(std::string_view bytes);
  Result<int> receive(const Sink& sink, const std::atomic<bool>* stop, bool& heard);
  // Whether there is something to read; an error for a stop or the timeout.
  Status wait_readable(const std::atomic<bool>* stop);
  std::string place() const;  // of the server, for messages
  Error failure(const std::string& what) const;

  const Url url_;
  const int64_t timeout_ms_;
  int fd_ = -1;
};

// Finds the events in a stream that comes in pieces.
class SseReader {
 public:
  static constexpr size_t kMaxEventBytes = 16 << 20;
  // `name` is empty where the event has none; several lines of data are one text.
  using Event = std::function<void(std::string_view name, std::string_view data)>;
  // False when an event, or what is none, has more than kMaxEventBytes: no more is read then.
  bool push(std::string_view bytes, const Event& event);

 private:
  void take_line(std::string_view line, const Event& event);

  std::string line_;    // not complete
  size_t searched_ = 0;  // bytes of it that hold no end
  std::string name_, data_;
  bool has_data_ = false;
};

}  // namespace strata::server::http
