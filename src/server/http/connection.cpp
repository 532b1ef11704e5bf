#include "server/http/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "base/clock.h"
#include "base/format.h"

namespace strata::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kReadBytes = 4 << 10;
constexpr size_t kBodyPiece = 16 << 10;
// What a client may send ahead while his request is answered.
constexpr size_t kMaxAheadBytes = 16 << 10;

template <class View>
std::string text_of(const View& view) {
  return std::string(view.data(), view.size());
}

template <class Fields, class Name>
std::optional<std::string> field_of(const Fields& fields, const Name& name) {
  const auto it = fields.find(name);
  return it == fields.end() ? std::nullopt : std::optional(text_of(it->value()));
}

template <class Parser>
RequestHead head_of(const Parser& parser, std::string id) {
  using beast::http::field;
  const auto& message = parser.get();
  RequestHead head{.id = std::move(id), .method = text_of(message.method_string()),
                   .target = text_of(message.target()), .version = static_cast<int>(message.version())};
  head.host = field_of(message, field::host);
  head.origin = field_of(message, field::origin);
  head.authorization = field_of(message, field::authorization);
  head.api_key = field_of(message, "x-api-key");
  head.content_type = field_of(message, field::content_type);
  head.preflight_method = field_of(message, field::access_control_request_method);
  head.preflight_fields = field_of(message, field::access_control_request_headers);
  if (const auto length = parser.content_length()) head.content_length = *length;
  head.chunked = parser.chunked();
  const auto coding = message.find(field::transfer_encoding);
  head.unknown_coding = coding != message.end() && (message.count(field::transfer_encoding) > 1 ||
                                                    !beast::iequals(coding->value(), "chunked") ||
                                                    message.version() < 11);  // which has none
  const auto length = message.find(field::content_length);
  const bool is_list = length != message.end() && length->value().find(',') != std::string_view::npos;
  head.ambiguous = is_list || message.count(field::host) > 1 || message.count(field::content_length) > 1 ||
                   (message.count(field::content_length) > 0 && message.count(field::transfer_encoding) > 0);
  head.expects_continue = message.count(field::expect) > 0;
  head.keep_alive = parser.keep_alive();
  return head;
}

bool is_parse_error(const boost::system::error_code& error) {
  return error.category() == beast::http::make_error_code(beast::http::error::bad_method).category();
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const ConnectionParts& parts)
    : socket_(std::move(socket)), parts_(parts), buffer_(2 * parts.options.max_header_bytes + kMaxAheadBytes) {}

void Connection::set_deadline(int64_t ms_from_now) {
  deadline_ns_ = real_clock().now_ns() + ms_from_now * kNsPerMs;
}

void Connection::wait_for_request(int64_t timeout_ms) {
  state_ = State::kIdle;
  set_deadline(timeout_ms);
  if (buffer_.size() > 0) {
    read_head();
  } else if (!reading_) {
    read_some();
  }
}

// Into the buffer: the beginning of a request, or what a client says while he is answered.
void Connection::read_some() {
  reading_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](const Error& error, size_t n) {
    self->on_bytes(error, n);
  });
}

void Connection::on_bytes(const Error& error, size_t n) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error == asio::error::eof && state_ == State::kAnswering) {
    on_half_closed();
    return;
  }
  if (error) {
    drop();
    return;
  }
  buffer_.commit(n);
  if (state_ == State::kIdle) {
    read_head();
  } else if (state_ == State::kAnswering && buffer_.size() < kMaxAheadBytes) {
    read_some();
  } else if (state_ == State::kLingering) {
    read_rest();
  }
}

void Connection::read_head() {
  state_ = State::kHead;
  begun_ns_ = real_clock().now_ns();
  set_deadline(parts_.options.header_timeout_ms);
  parser_.emplace();
  parsing_ = true;
  parser_->header_limit(static_cast<std::uint32_t>(parts_.options.max_header_bytes));
  parser_->body_limit(UINT64_MAX);  // check_head() and on_body() know the limit, and say it
  beast::http::async_read_header(socket_, buffer_, *parser_,
                                 [self = shared_from_this()](const Error& error, size_t) { self->on_head(error); });
}

void Connection::on_head(const Error& error) {
  parsing_ = false;
  if (state_ == State::kLingering) read_rest();
  if (state_ != State::kHead) return;  // the deadline came first
  if (error) {
    refuse_parse(error);
    return;
  }
  take_head();
}

void Connection::take_head() {
  head_ = head_of(*parser_, parts_.make_id());
  body_unread_ = head_.has_body() || head_.ambiguous;
  const std::optional<Route> route = parts_.handler.find(head_.path());
  if (const auto refusal = check_head(head_, route, parts_.rules)) {
    refuse(*refusal);
    return;
  }
  if (head_.method == "OPTIONS") {
    open_outbox(head_.keep_alive && !body_unread_);
    outbox_->answer(preflight_answer(head_, *route, parts_.rules));
    return;
  }
  body_.emplace(parts_.budget);
  body_bytes_ = 0;
  if (!head_.has_body()) {
    hand_on();
    return;
  }
  state_ = State::kBody;
  set_deadline(parts_.options.body_timeout_ms);
  piece_.resize(kBodyPiece);
  if (head_.expects_continue) {
    send_continue();
  } else {
    read_body();
  }
}

void Connection::send_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  writing_ = true;
  asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                    [self = shared_from_this()](const Error& error, size_t) {
                      self->writing_ = false;
                      if (error) {
                        self->drop();
                      } else if (self->state_ == State::kBody) {
                        self->read_body();
                      } else {
                        self->flush();
                      }
                    });
}

void Connection::on_half_closed() {
  if (!std::exchange(half_closed_, true)) {
    // Completes when a reset has come.
    socket_.async_wait(asio::ip::tcp::socket::wait_error, [self = shared_from_this()](const Error& error) {
      if (!error) self->drop();
    });
  }
  probe();
}

// What is being sent, or is about to be, probes as well.
void Connection::probe() {
  probed_ns_ = real_clock().now_ns();
  if (writing_) return;
  if (outbox_->status() != 0) {
    outbox_->write(sse_comment("waiting"));  // nothing where the answer is no stream
  } else if (head_.version >= 11) {
    send_continue();
  } else {
    drop();
  }
}

void Connection::read_body() {
  parsing_ = true;
  parser_->get().body().data = piece_.data();
  parser_->get().body().size = piece_.size();
  parser_->get().body().more = true;
  beast::http::async_read_some(socket_, buffer_, *parser_, [self = shared_from_this()](const Error& error, size_t) {
    self->on_body(error, self->piece_.size() - self->parser_->get().body().size);
  });
}

void Connection::on_body(const Error& error, size_t n) {
  parsing_ = false;
  if (state_ == State::kLingering) read_rest();
  if (state_ != State::kBody) return;  // the deadline came first
  if (error && error != beast::http::error::need_buffer) {
    refuse_parse(error);
    return;
  }
  body_bytes_ += n;
  if (body_bytes_ > parts_.rules.max_body_bytes) {
    refuse({413, "body_too_large", format("the body has more than the {} bytes that are allowed (--max-body-mib)",
                                          parts_.rules.max_body_bytes)});
    return;
  }
  if (!body_->append({piece_.data(), n})) {
    refuse({503, "server_busy", "too many requests are being read; try again later", {{"Retry-After", "2"}}});
    return;
  }
  if (parser_->is_done()) {
    hand_on();
    return;
  }
  // From the beginning of the body, so that a trickle does not hold the connection for ever.
  const int64_t earned_ms = static_cast<int64_t>(body_bytes_) * 1000 / parts_.options.body_bytes_per_s;
  deadline_ns_ = begun_ns_ + (parts_.options.body_timeout_ms + earned_ms) * kNsPerMs;
  read_body();
}

void Connection::hand_on() {
  body_unread_ = false;
  open_outbox(head_.keep_alive);
  Body body = std::move(*body_);
  body_.reset();
  parser_.reset();
  piece_ = {};
  if (!reading_ && buffer_.size() < kMaxAheadBytes) read_some();
  call_ = parts_.handler.start(head_, std::move(body), outbox_);
}

// What the client sent is no request of HTTP, or he has gone.
void Connection::refuse_parse(const Error& failure) {
  using beast::http::error;
  if (!is_parse_error(failure) || failure == error::end_of_stream || failure == error::partial_message) {
    drop();
    return;
  }
  if (state_ == State::kHead) {
    head_ = RequestHead{.id = parts_.make_id(), .method = "-", .target = "-"};
    body_unread_ = true;
  }
  if (failure == error::header_limit || failure == error::buffer_overflow) {
    refuse({431, "header_too_large",
            format("the request's head has more than {} bytes", parts_.options.max_header_bytes)});
  } else if (failure == error::bad_version) {
    refuse({505, "bad_version", "this server speaks HTTP/1.1 and HTTP/1.0"});
  } else {
    refuse({400, "bad_request", format("the request is not valid HTTP: {}", failure.message())});
  }
}

void Connection::refuse(const Refusal& refusal) {
  body_.reset();
  open_outbox(head_.keep_alive && !body_unread_);
  outbox_->answer({.status = refusal.status, .body = parts_.handler.error_body(head_.path(), refusal),
                   .fields = refusal.fields});
}

void Connection::open_outbox(bool keep_alive) {
  state_ = State::kAnswering;
  progress_ns_ = real_clock().now_ns();
  OutboxOptions options{.version = head_.version, .keep_alive = keep_alive && !parts_.stopping.load(),
                        .head_only = head_.method == "HEAD", .request_id = head_.id,
                        .max_pending_bytes = parts_.options.max_pending_bytes};
  if (const auto origin = shared_origin(parts_.rules, head_.origin)) {
    options.fields = {{"Access-Control-Allow-Origin", *origin},
                      {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
                      {"Vary", "Origin"}};
  }
  outbox_ = std::make_shared<Outbox>(std::move(options), [weak = weak_from_this(), &io = parts_.io] {
    asio::post(io, [weak] {
      if (const auto self = weak.lock()) self->flush();
    });
  });
}

void Connection::flush() {
  if (writing_ || state_ != State::kAnswering) return;
  Outbox::Taken taken = outbox_->take();
  if (taken.overflowed) {
    drop();
  } else if (!taken.bytes.empty()) {
    out_ = std::move(taken.bytes);
    sent_ = 0;
    progress_ns_ = real_clock().now_ns();
    write_some();
  } else if (taken.ended) {
    finish_answer();
  }
}

void Connection::write_some() {
  writing_ = true;
  socket_.async_write_some(asio::buffer(out_.data() + sent_, out_.size() - sent_),
                           [self = shared_from_this()](const Error& error, size_t n) {
                             self->writing_ = false;
                             if (self->state_ != State::kAnswering) return;
                             if (error) {
                               self->drop();
                               return;
                             }
                             self->progress_ns_ = real_clock().now_ns();
                             self->sent_ += n;
                             if (self->sent_ < self->out_.size()) {
                               self->write_some();
                               return;
                             }
                             self->out_ = std::string();
                             self->flush();
                           });
}

void Connection::finish_answer() {
  const bool keep_alive = outbox_->keep_alive() && !parts_.stopping.load();
  end_call();
  if (keep_alive) {
    wait_for_request(parts_.options.idle_timeout_ms);
  } else {
    linger();
  }
}

void Connection::end_call() {
  if (!outbox_) return;
  const std::string summary = call_ ? call_->summary() : "";
  parts_.handler.ended(head_, outbox_->status(), real_clock().now_ns() - begun_ns_, summary);
  outbox_.reset();
  call_.reset();
}

void Connection::linger() {
  state_ = State::kLingering;
  set_deadline(parts_.options.linger_ms);
  Error ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (!reading_ && !parsing_) read_rest();
}

void Connection::read_rest() {
  buffer_.consume(buffer_.size());
  read_some();
}

void Connection::tick(int64_t now_ns) {
  const bool late = now_ns > deadline_ns_;
  switch (state_) {
    case State::kIdle:
      if (late || parts_.stopping.load()) drop();
      return;
    case State::kHead:
      if (!late) return;
      head_ = RequestHead{.id = parts_.make_id(), .method = "-", .target = "-"};
      body_unread_ = true;
      refuse({408, "request_timeout", "the request's head did not come in time"});
      return;
    case State::kBody:
      if (late) refuse({408, "request_timeout", "the request's body did not come in time"});
      return;
    case State::kAnswering:
      if (writing_ && now_ns - progress_ns_ > parts_.options.write_timeout_ms * kNsPerMs) {
        drop();
      } else if (call_) {
        if (half_closed_ && now_ns - probed_ns_ > parts_.options.probe_ms * kNsPerMs) probe();
        if (call_) call_->tick(now_ns);
      }
      return;
    case State::kLingering:
      if (late) drop();
      return;
    case State::kClosed: return;
  }
}

void Connection::drop() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  state_ = State::kClosed;
  if (outbox_) outbox_->client_gone();
  if (call_) call_->client_gone();
  end_call();
  body_.reset();
  Error ignored;
  socket_.close(ignored);
  parts_.closed(*this);
}

}  // namespace strata::server::http
