// Goal: what attackers try is refused as it should be, and others are served meanwhile. Method: for each row of the
// table many connections do the same at once; while all of them are open another client asks and gets his answers. A
// server over a stub; W01, W02, W07, W10, W11 and P10 on the wire.
#include <gtest/gtest.h>

#include "server/support/running.h"

namespace strata::server {
namespace {

using test::get;
using test::post;
using test::Wire;

constexpr int kClosed = 0;  // without an answer
const std::string kJsonType = "Content-Type: application/json\r\n";
const std::string kPost = "POST /plain HTTP/1.1\r\nHost: localhost\r\n" + kJsonType;
const std::string kWithKey = "x-api-key: right\r\n";

struct Attack {
  const char* name;
  std::string request;
  int status;
  bool with_keys = false;  // of a server that asks for keys
  int connections = 16;
};

std::string with_host(const std::string& host) {
  return "POST /plain HTTP/1.1\r\nHost: " + host + "\r\n" + kJsonType + "Content-Length: 2\r\n\r\n{}";
}

std::string many_fields() {
  std::string fields;
  for (int i = 0; i < 5000; i++) fields += "X-" + std::to_string(i) + ": y\r\n";
  return fields;
}

std::string deep_json() {
  return "{\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
}

// More chunks than are taken; the server has answered long before the last.
std::string endless_chunks() {
  std::string text = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 40; i++) text += "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  return text;
}

std::vector<Attack> attacks() {
  return {
      {"rebinding", with_host("evil.example"), 403},
      {"rebinding with an address in the name", with_host("127.0.0.1.evil.example"), 403},
      {"two hosts", "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400},
      {"foreign page", post("/plain", "{}", "Origin: https://evil.example\r\n"), 403},
      {"page without an origin", post("/plain", "{}", "Origin: null\r\n"), 403},
      {"simple request of a page", "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
                                   "Content-Length: 2\r\n\r\n{}", 415},
      {"no key", post("/plain", "{}"), 401, true},
      {"the key's beginning", post("/plain", "{}", "x-api-key: righ\r\n"), 401, true},
      {"more than the key", post("/plain", "{}", "Authorization: Bearer rightright\r\n"), 401, true},
      {"a key in the URL", post("/plain?key=right", "{}"), 401, true},
      {"an empty key", post("/plain", "{}", "Authorization: Bearer \r\n"), 401, true},
      {"traversal", get("/../../etc/passwd"), 404},
      {"encoded traversal", get("/%2e%2e%2f%2e%2e%2fetc%2fpasswd"), 404},
      {"traversal with backslashes", get("/..\\..\\etc\\passwd"), 404},
      {"injection into the head", get("/x%0d%0aX-Injected:%20y"), 404},
      {"line ends in a field", get("/health", "X: a\rX-Injected: b\r\n"), 400},
      {"a zero in a field", get("/health", std::string("X: a\0b\r\n", 8)), 400},
      {"a space before the colon", get("/health", "Content-Length : 5\r\n"), 400},
      {"flood of fields", get("/health", many_fields()), 431},
      {"a field of a megabyte", get("/health", "X: " + std::string(1 << 20, 'x') + "\r\n"), 431},
      {"a path of a megabyte", get("/" + std::string(1 << 20, 'x')), 431},
      {"deep JSON", post("/plain", deep_json()), 400, false, 4},
      {"a body of a gigabyte", kPost + "Content-Length: 1073741824\r\n\r\n", 413},
      {"a body of 2^64 bytes", kPost + "Content-Length: 18446744073709551616\r\n\r\n", 400},
      {"a body of endless chunks", endless_chunks(), 413, false, 4},
      {"a chunk of 2^64 bytes", kPost + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", 400},
      {"smuggling by two lengths", kPost + "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}", 400},
      {"smuggling by length and chunks",
       kPost + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"smuggling by an unknown coding", kPost + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
      {"smuggling by a list of codings", kPost + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501},
      {"noise", std::string("\x16\x03\x01\x00\xff\r\n\r\n", 9), 400},
      {"half a body", kPost + "Content-Length: 200\r\n\r\n{", 408},
      {"slow heads", "POST /plain HTTP/1.1\r\nHost: loc", 408, false, 200},
      {"silence", "", kClosed, false, 200},
  };
}

ServerOptions options_of(bool with_keys) {
  ServerOptions options;
  options.access.max_body_bytes = 1 << 20;
  options.http.header_timeout_ms = options.http.body_timeout_ms = 1500;
  if (with_keys) options.access.keys = {"another", "right"};
  return options;
}

class Attacks : public ::testing::TestWithParam<size_t> {};

TEST_P(Attacks, AreRefusedWhileOthersAreServed) {
  const Attack attack = attacks()[GetParam()];
  Running running({}, options_of(attack.with_keys));
  Wire other = running.connect();
  const std::string question = post("/plain", R"({"tokens":2})", attack.with_keys ? kWithKey : "");
  std::vector<Wire> attackers;
  for (int i = 0; i < attack.connections; i++) {
    attackers.push_back(running.connect());
    static_cast<void>(attackers.back().send(attack.request));  // the server may have refused it before its end
    if (i % 8 != 0) continue;
    ASSERT_TRUE(other.send(question));
    const auto served = other.answer();
    ASSERT_TRUE(served) << attack.name;
    EXPECT_EQ(served->status, 200) << attack.name;
  }
  for (Wire& attacker : attackers) {
    if (attack.status == kClosed) {
      EXPECT_TRUE(attacker.closed_by_server()) << attack.name;
      continue;
    }
    const auto answer = attacker.answer();
    ASSERT_TRUE(answer) << attack.name;
    EXPECT_EQ(answer->status, attack.status) << attack.name << ": " << answer->body;
    EXPECT_FALSE(answer->fields.contains("x-injected")) << attack.name;
    EXPECT_FALSE(answer->fields.contains("access-control-allow-origin")) << attack.name;
    EXPECT_EQ(answer->body.find("root:"), std::string::npos) << attack.name;
    EXPECT_EQ(answer->body.find("right"), std::string::npos) << attack.name;  // no key is told
  }
  ASSERT_TRUE(other.send(question));
  EXPECT_EQ(other.answer().value_or(test::WireAnswer{}).status, 200) << attack.name;
}

INSTANTIATE_TEST_SUITE_P(Rows, Attacks, ::testing::Range<size_t>(0, attacks().size()));

// The control: what the attacks are made of is served where nothing is wrong with it.
TEST(AttacksControl, WhatTheyAreMadeOfIsServed) {
  Running open({}, options_of(false)), closed({}, options_of(true));
  EXPECT_EQ(open.ask(with_host("localhost")).status, 200);
  EXPECT_EQ(open.ask(post("/plain", "{}", "Origin: http://localhost\r\n")).status, 200);
  EXPECT_EQ(open.ask(kPost + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n").status, 200);
  EXPECT_EQ(closed.ask(post("/plain", "{}", "Authorization: Bearer right\r\n")).status, 200);
}

}  // namespace
}  // namespace strata::server
