// Requests and answers of HTTP, free of any library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::server::http {

using Field = std::pair<std::string, std::string>;

// A request without its body: what decisions are made of. Texts are as the client sent them.
struct RequestHead {
  std::string id;      // ours, unlike that of any other request of this process
  std::string method;  // "GET"
  std::string target;  // "/v1/models?limit=3"
  int version = 11;    // 10 or 11
  std::optional<std::string> host = {}, origin = {}, authorization = {}, api_key = {}, content_type = {};
  std::optional<std::string> preflight_method = {}, preflight_fields = {};  // Access-Control-Request-...
  std::optional<uint64_t> content_length = {};
  bool chunked = false;
  bool unknown_coding = false;  // a Transfer-Encoding other than chunks: where the body ends can't be told
  bool ambiguous = false;  // more than one Host or Content-Length, or a length beside chunks
  bool expects_continue = false;
  bool keep_alive = true;

  // Of the target, without what follows a question mark. Never used as the name of a file.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  bool has_body() const { return chunked || unknown_coding || content_length.value_or(0) > 0; }
};

// Why a request is not served. The handler makes it a body in the form of its API.
struct Refusal {
  int status = 400;
  std::string code;     // for programs: "invalid_api_key"
  std::string message;  // for people: what was wrong and what to do
  std::vector<Field> fields = {};
};

// "host:port"; an address of IPv6 stands in brackets.
std::string authority_text(std::string_view host, uint16_t port);

struct Answer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<Field> fields = {};
};

// "Not Found"; "" for a status that this program does not send.
std::string_view reason_of(int status);

// What becomes of the body of an answer.
enum class Framing {
  kLength,   // as long as Content-Length says
  kChunked,  // a stream in chunks
  kClose,    // a stream that ends with the connection: for clients of HTTP/1.0
};

struct HeadOptions {
  Framing framing = Framing::kLength;
  bool keep_alive = true;
  std::string_view request_id = {};
};

// The head of an answer up to the empty line, with the fields that every answer has.
std::string answer_head(const Answer& answer, const HeadOptions& options);

// A chunk of a chunked body; `bytes` is not empty, for an empty one ends the body.
std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// A server-sent event. Line ends in `data` make several data lines, as the grammar wants it; `name` may be empty.
std::string sse_event(std::string_view name, std::string_view data);
// A line that clients ignore. Line ends in it become spaces.
std::string sse_comment(std::string_view text);

}  // namespace strata::server::http
