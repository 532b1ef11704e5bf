#include "server/support/wire.h"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

namespace strata::test {
namespace {

constexpr int kPatienceMs = 30'000;

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

Wire::Wire(uint16_t port, int receive_buffer) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

Wire::Wire(Wire&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      piece_bytes_(other.piece_bytes_),
      pause_ns_(other.pause_ns_) {}

bool Wire::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void Wire::end_sending() { ::shutdown(fd_, SHUT_WR); }

void Wire::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Wire::reset() {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close();
}

bool Wire::read_more() {
  pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kPatienceMs) <= 0) return false;
  if (pause_ns_ > 0) real_clock().sleep_ns(pause_ns_);
  char bytes[16 << 10];
  const ssize_t n = ::recv(fd_, bytes, std::min(sizeof bytes, piece_bytes_), 0);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

bool Wire::wait_for(std::string_view text) {
  while (buffer_.find(text) == std::string::npos) {
    if (!read_more()) return false;
  }
  return true;
}

bool Wire::closed_by_server() {
  for (;;) {
    pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, kPatienceMs) <= 0) return false;
    char bytes[16 << 10];
    if (::recv(fd_, bytes, sizeof bytes, 0) <= 0) return true;
  }
}

bool Wire::read_chunks(std::string& body) {
  for (;;) {
    if (!wait_for("\r\n")) return false;
    const size_t size = std::stoul(buffer_, nullptr, 16);
    const size_t begin = buffer_.find("\r\n") + 2;
    while (buffer_.size() < begin + size + 2) {
      if (!read_more()) return false;
    }
    body.append(buffer_, begin, size);
    buffer_.erase(0, begin + size + 2);
    if (size == 0) return true;
  }
}

std::optional<WireAnswer> Wire::answer(bool to_head) {
  if (!wait_for("\r\n\r\n")) return std::nullopt;
  WireAnswer answer;
  const size_t head_end = buffer_.find("\r\n\r\n");
  const std::string head = buffer_.substr(0, head_end + 2);
  buffer_.erase(0, head_end + 4);
  answer.status = std::stoi(head.substr(9, 3));
  for (size_t begin = head.find("\r\n") + 2; begin < head.size();) {
    const size_t end = head.find("\r\n", begin);
    const size_t colon = head.find(": ", begin);
    answer.fields[lowered(head.substr(begin, colon - begin))] = head.substr(colon + 2, end - colon - 2);
    begin = end + 2;
  }
  if (to_head || answer.status == 204 || answer.status == 100) return answer;
  answer.chunked = answer.fields.contains("transfer-encoding");
  if (answer.chunked) return read_chunks(answer.body) ? std::optional(answer) : std::nullopt;
  if (!answer.fields.contains("content-length")) {  // until the end
    while (read_more()) continue;
    answer.body = std::exchange(buffer_, "");
    return answer;
  }
  const size_t length = std::stoul(answer.fields["content-length"]);
  while (buffer_.size() < length) {
    if (!read_more()) return std::nullopt;
  }
  answer.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return answer;
}

std::string post(std::string_view path, std::string_view body, std::string_view more_fields) {
  std::string text = "POST ";
  text.append(path).append(" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ");
  text.append(std::to_string(body.size())).append("\r\n").append(more_fields).append("\r\n").append(body);
  return text;
}

std::string get(std::string_view path, std::string_view more_fields) {
  std::string text = "GET ";
  text.append(path).append(" HTTP/1.1\r\nHost: localhost\r\n").append(more_fields).append("\r\n");
  return text;
}

}  // namespace strata::test
