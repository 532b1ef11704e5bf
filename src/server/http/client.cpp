#include "server/http/client.h"

#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "server/http/message.h"

namespace strata::server::http {
namespace {

namespace beast = boost::beast;

constexpr int kPollMs = 50;  // how soon a stop is seen
constexpr size_t kReadBytes = 16 << 10;
// Of what has come and is not parsed yet: a head, or the line of a chunk.
constexpr size_t kMaxUnparsed = 64 << 10;

std::string system_text(int error) { return std::generic_category().message(error); }

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const std::string shown = printable(text);
  if (text.starts_with("https://")) {
    return strata::Error{ErrorCode::kUnsupported,
                         format("{}: https is not spoken here; put a proxy that speaks it in between", shown)};
  }
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  Url url;
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  url.prefix = text.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  // The base URL as clients of OpenAI's API take it: the paths that are asked for begin with it already.
  constexpr std::string_view kVersion = "/v1";
  if (url.prefix.ends_with(kVersion)) url.prefix.resize(url.prefix.size() - kVersion.size());
  size_t colon = authority.rfind(':');
  if (authority.ends_with(']')) colon = std::string_view::npos;  // of an address
  if (colon != std::string_view::npos) {
    const std::string_view port = authority.substr(colon + 1);
    const auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (failed != std::errc() || end != port.data() + port.size()) {
      return strata::Error{ErrorCode::kBadInput, format("{}: the port is not a number up to 65535", shown)};
    }
    authority = authority.substr(0, colon);
  }
  if (authority.size() > 2 && authority.front() == '[') authority = authority.substr(1, authority.size() - 2);
  url.host = authority;
  const auto bad = [](std::string_view part) {
    return part.find_first_of(" \t\r\n@?#") != std::string_view::npos;
  };
  if (url.host.empty() || bad(url.host) || bad(url.prefix)) {
    return strata::Error{ErrorCode::kBadInput, format("{}: not a URL like http://127.0.0.1:8080", shown)};
  }
  return url;
}

void Client::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string Client::place() const { return format("http://{}", authority_text(url_.host, url_.port)); }

Error Client::failure(const std::string& what) const { return {ErrorCode::kIo, format("{}: {}", place(), what)}; }

Status Client::connect() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(url_.host.c_str(), std::to_string(url_.port).c_str(), &hints, &found);
  if (failed == EAI_NONAME) {  // whoever knows of no such host now will not a minute later
    return strata::Error{ErrorCode::kNotFound, format("{}: there is no host of this name", place())};
  }
  if (failed != 0) return failure(::gai_strerror(failed));
  int last = 0;
  for (const addrinfo* at = found; at != nullptr && fd_ < 0; at = at->ai_next) {
    fd_ = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd_ >= 0 && ::connect(fd_, at->ai_addr, at->ai_addrlen) != 0) {
      last = errno;
      close();
    }
  }
  ::freeaddrinfo(found);
  if (fd_ < 0) return failure(system_text(last) + "; is a server running there? strata serve starts one");
  const int on = 1;
  static_cast<void>(::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  return {};
}

Status Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure(system_text(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status Client::wait_readable(const std::atomic<bool>* stop) {
  const int64_t end_ns = real_clock().now_ns() + timeout_ms_ * 1'000'000;
  for (;;) {
    if (stop != nullptr && stop->load()) return strata::Error{ErrorCode::kCancelled, "interrupted"};
    pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, kPollMs);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failure(system_text(errno));
    if (real_clock().now_ns() > end_ns) return failure(format("no answer for {} s", timeout_ms_ / 1000));
  }
}

Result<int> Client::ask(const ClientRequest& request, const Sink& sink, const std::atomic<bool>* stop) {
  std::string head = format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", request.method, url_.prefix, request.path,
                            authority_text(url_.host, url_.port));
  if (!request.api_key.empty()) head += format("Authorization: Bearer {}\r\n", request.api_key);
  if (!request.body.empty()) {
    head += format("Content-Type: application/json\r\nContent-Length: {}\r\n", request.body.size());
  }
  head += "\r\n";
  for (;;) {
    const bool kept = fd_ >= 0;
    if (!kept) RETURN_IF_ERROR(connect());
    bool heard = false;
    Status sent = send(head + request.body);
    Result<int> status = sent.ok() ? receive(sink, stop, heard) : Result<int>(sent.error());
    if (!status.ok()) close();
    // A connection that was kept may have been closed by the server at the same time.
    if (status.ok() || !kept || heard || status.error().code != ErrorCode::kIo) return status;
  }
}

Result<int> Client::receive(const Sink& sink, const std::atomic<bool>* stop, bool& heard) {
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(UINT64_MAX);
  parser.eager(true);
  std::string unparsed;
  char bytes[kReadBytes];
  while (!parser.is_done()) {
    RETURN_IF_ERROR(wait_readable(stop));
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure(system_text(errno));
    boost::system::error_code error;
    if (n == 0) {
      // The parser takes no end before it has seen a byte.
      if (parser.got_some()) parser.put_eof(error);
      if (error || !parser.is_done()) return failure("the server ended the connection before its answer was complete");
      break;
    }
    heard = true;
    unparsed.append(bytes, static_cast<size_t>(n));
    while (!unparsed.empty() && !parser.is_done()) {
      const size_t used = parser.put(boost::asio::buffer(unparsed.data(), unparsed.size()), error);
      if (error && error != beast::http::error::need_more) return failure("not an answer of HTTP: " + error.message());
      unparsed.erase(0, used);
      if (used == 0 || error) break;
    }
    if (unparsed.size() > kMaxUnparsed) return failure("the head of the answer is too long");
    std::string piece;
    piece.swap(parser.get().body());
    if (!piece.empty() && !sink(piece)) return strata::Error{ErrorCode::kCancelled, "interrupted"};
  }
  if (!parser.keep_alive()) close();
  return static_cast<int>(parser.get().result_int());
}

bool SseReader::push(std::string_view bytes, const Event& event) {
  line_ += bytes;
  size_t begin = 0;
  for (size_t end; (end = line_.find('\n', std::max(begin, searched_))) != std::string::npos; begin = end + 1) {
    std::string_view line = std::string_view(line_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line, event);
  }
  line_.erase(0, begin);
  searched_ = line_.size();
  return line_.size() + data_.size() <= kMaxEventBytes;
}

void SseReader::take_line(std::string_view line, const Event& event) {
  if (line.empty()) {
    if (has_data_) event(name_, data_);
    name_.clear();
    data_.clear();
    has_data_ = false;
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") name_ = value;
  if (field == "data") {
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
}

}  // namespace strata::server::http
