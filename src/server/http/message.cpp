#include "server/http/message.h"

#include <algorithm>
#include <ctime>

#include "base/assert.h"
#include "base/format.h"

namespace strata::server::http {
namespace {

struct Reason {
  int status;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {529, "Overloaded"},
};

// A page that shows an answer runs nothing in it, does not frame it and does not guess at its type; no cache keeps it.
constexpr std::string_view kSecurityFields =
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n";

// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string date_text() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  return format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

}  // namespace

std::string_view reason_of(int status) {
  for (const Reason& reason : kReasons) {
    if (reason.status == status) return reason.text;
  }
  return "";
}

std::string authority_text(std::string_view host, uint16_t port) {
  return host.find(':') == std::string_view::npos ? format("{}:{}", host, port) : format("[{}]:{}", host, port);
}

std::string answer_head(const Answer& answer, const HeadOptions& options) {
  std::string head = format("HTTP/1.1 {} {}\r\nDate: {}\r\n", answer.status, reason_of(answer.status), date_text());
  // An answer without content has neither type nor length.
  if (answer.status != 204) {
    head += format("Content-Type: {}\r\n", answer.content_type);
    if (options.framing == Framing::kLength) head += format("Content-Length: {}\r\n", answer.body.size());
    if (options.framing == Framing::kChunked) head += "Transfer-Encoding: chunked\r\n";
  }
  head += kSecurityFields;
  for (const auto& [name, value] : answer.fields) {
    ASSERT(is_plain(name) && is_plain(value));  // whoever takes a value from a client has checked it
    head += format("{}: {}\r\n", name, value);
  }
  if (!options.request_id.empty()) head += format("X-Request-Id: {}\r\n", options.request_id);
  head += options.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string chunk(std::string_view bytes) {
  ASSERT(!bytes.empty());
  std::string framed = format("{:x}\r\n", bytes.size());
  framed.reserve(framed.size() + bytes.size() + 2);
  framed += bytes;
  framed += "\r\n";
  return framed;
}

std::string sse_event(std::string_view name, std::string_view data) {
  std::string text;
  text.reserve(name.size() + data.size() + 24);
  if (!name.empty()) {
    ASSERT(is_plain(name));
    text += "event: ";
    text += name;
    text += '\n';
  }
  // A line ends with \r, \n or both; each is a line of data of its own, and comes back as \n.
  for (size_t begin = 0;;) {
    const size_t end = std::min(data.find_first_of("\r\n", begin), data.size());
    text += "data: ";
    text += data.substr(begin, end - begin);
    text += '\n';
    if (end == data.size()) break;
    begin = end + (data.substr(end, 2) == "\r\n" ? 2 : 1);
  }
  text += '\n';
  return text;
}

std::string sse_comment(std::string_view comment) {
  std::string text = ": ";
  text += comment;
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n'; }, ' ');
  return text + "\n\n";
}

}  // namespace strata::server::http
