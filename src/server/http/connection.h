// One connection: reads requests one after another, hands them on, sends what is answered, and keeps to its deadlines.
//
// All calls and completions are on the thread that runs the io_context; only an Outbox is touched by other threads.
// A connection is idle (no byte of a request has come), reads a head, reads a body, answers, or lingers: its last
// answer is sent, and what the client still says is thrown away until he has read it or time is up; for a close with
// unread bytes would take the answer from him.
//
// While an answer is made the connection reads on, up to a limit. A client who ends his side may have gone, or may have
// said all he has to say and wait for the answer (nc -N, some proxies): the same bytes. So he is sent something that
// means nothing, "100 Continue" before the answer or a comment in a stream, now and then: where nobody is left his
// system answers with a reset, and the request is cancelled. To HTTP/1.0 there is nothing to say before an answer:
// there the end means that he has gone.
#pragma once

#include <memory>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "server/http/handler.h"
#include "server/http/options.h"
#include "server/http/outbox.h"

namespace strata::server::http {

class Connection;

// What the connections of a server share. Outlives them.
struct ConnectionParts {
  boost::asio::io_context& io;
  const HttpOptions& options;
  const AccessRules& rules;
  Handler& handler;
  std::shared_ptr<BodyBudget> budget;
  const std::atomic<bool>& stopping;         // no further request is taken
  std::function<void(Connection&)> closed;   // the last that a connection does
  std::function<std::string()> make_id;      // of a request
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, const ConnectionParts& parts);

  void start() { wait_for_request(parts_.options.header_timeout_ms); }
  // Looks at the deadlines.
  void tick(int64_t now_ns);
  // At once; a request under way is cancelled.
  void drop();
  // Neither a whole head nor an answer would be lost.
  bool is_spare() const { return state_ == State::kIdle || state_ == State::kHead; }
  bool is_idle() const { return state_ == State::kIdle; }

 private:
  using Error = boost::system::error_code;
  enum class State { kIdle, kHead, kBody, kAnswering, kLingering, kClosed };

  void wait_for_request(int64_t timeout_ms);
  void read_some();
  void on_bytes(const Error& error, size_t n);
  void read_head();
  void on_head(const Error& error);
  void take_head();
  void send_continue();
  void on_half_closed();
  void probe();
  void read_body();
  void on_body(const Error& error, size_t n);
  void hand_on();
  void refuse(const Refusal& refusal);
  void refuse_parse(const Error& error);
  void open_outbox(bool keep_alive);
  void flush();
  void write_some();
  void finish_answer();
  void linger();
  void read_rest();
  void end_call();
  void set_deadline(int64_t ms_from_now);

  boost::asio::ip::tcp::socket socket_;
  const ConnectionParts& parts_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::buffer_body>> parser_;
  State state_ = State::kIdle;
  bool reading_ = false;  // read_some() is under way
  bool parsing_ = false;  // the parser reads; it, the buffer and piece_ stay until it has ended
  bool writing_ = false;
  bool half_closed_ = false;  // the client says nothing more
  bool body_unread_ = false;
  int64_t deadline_ns_ = 0;
  int64_t begun_ns_ = 0;     // the request
  int64_t progress_ns_ = 0;  // the client last took something
  int64_t probed_ns_ = 0;    // a client who says nothing more was last looked for
  RequestHead head_;
  std::optional<Body> body_;
  uint64_t body_bytes_ = 0;
  std::vector<char> piece_;  // of a body
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<Call> call_;
  std::string out_;  // being sent
  size_t sent_ = 0;
};

}  // namespace strata::server::http
