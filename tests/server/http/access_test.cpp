// Goal: who may ask is decided as documented, for every kind of head; what is compared with a key takes as long
// whatever it is; nesting is measured without recursion.
#include "server/http/access.h"

#include <gtest/gtest.h>

namespace strata::server::http {
namespace {

constexpr Route kPost{.get = false, .post = true, .is_public = false};
constexpr Route kPublic{.get = true, .post = false, .is_public = true};

RequestHead post_head() {
  RequestHead head{.id = "req-1", .method = "POST", .target = "/v1/x"};
  head.host = "localhost:8080";
  head.content_type = "application/json";
  head.content_length = 2;
  return head;
}

int status_of(const RequestHead& head, const AccessRules& rules, std::optional<Route> route = kPost) {
  const auto refusal = check_head(head, route, rules);
  return refusal ? refusal->status : 200;
}

// W01
TEST(CheckHead, KnowsTheHostsThatItIs) {
  const AccessRules rules{.keys = {}, .hosts = {"box.local"}, .origins = {}};
  RequestHead head = post_head();
  for (const char* host : {"localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:99", "10.1.2.3",
                           "box.local", "BOX.local.:80"}) {
    head.host = host;
    EXPECT_EQ(status_of(head, rules), 200) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "xlocalhost",
                           "box.local.evil", "0x7f.1.evil", "2130706433.nip.io"}) {
    head.host = host;
    EXPECT_EQ(status_of(head, rules), 403) << host;
  }
  for (const char* host : {"", ":80", "[::1", "[::1]x", "localhost:", "localhost:x", "localhost:123456", "a:1:2"}) {
    head.host = host;
    EXPECT_EQ(status_of(head, rules), 400) << host;
  }
  head.host.reset();
  EXPECT_EQ(status_of(head, rules), 400);
  head.version = 10;  // before Host was
  EXPECT_EQ(status_of(head, rules), 200);
}

// W01: a page that has its name point here has no key.
TEST(CheckHead, TakesAnyHostWithAKey) {
  AccessRules rules{.keys = {"secret"}, .hosts = {}, .origins = {}};
  RequestHead head = post_head();
  head.host = "models.example";
  EXPECT_EQ(status_of(head, rules), 401);
  head.authorization = "Bearer secret";
  EXPECT_EQ(status_of(head, rules), 200);
}

// W02
TEST(CheckHead, RefusesForeignOrigins) {
  AccessRules rules;
  RequestHead head = post_head();
  for (const char* origin : {"https://evil", "null", "chrome-extension://abc", "http://localhost:3000", ""}) {
    head.origin = origin;
    EXPECT_EQ(status_of(head, rules), 403) << origin;
  }
  head.origin = "http://localhost:8080";  // the server's own page
  EXPECT_EQ(status_of(head, rules), 200);
  rules.origins = {"https://app.example"};
  head.origin = "https://app.example";
  EXPECT_EQ(status_of(head, rules), 200);
  head.origin = "https://app.example.evil";
  EXPECT_EQ(status_of(head, rules), 403);
  rules.origins = {"*"};
  EXPECT_EQ(status_of(head, rules), 200);
}

// W02: a page that may not ask, but sends a simple request all the same.
TEST(CheckHead, WantsJson) {
  const AccessRules rules;
  RequestHead head = post_head();
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json",
                           "text/plain; application/json"}) {
    head.content_type = type;
    EXPECT_EQ(status_of(head, rules), 415) << type;
  }
  head.content_type.reset();
  EXPECT_EQ(status_of(head, rules), 415);
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/problem+json"}) {
    head.content_type = type;
    EXPECT_EQ(status_of(head, rules), 200) << type;
  }
}

// W10, P10
TEST(CheckHead, RefusesBySizeBeforeABodyIsRead) {
  AccessRules rules;
  rules.max_body_bytes = 100;
  RequestHead head = post_head();
  head.content_length = 100;
  EXPECT_EQ(status_of(head, rules), 200);
  head.content_length = 101;
  EXPECT_EQ(status_of(head, rules), 413);
  head.content_length = UINT64_MAX;
  EXPECT_EQ(status_of(head, rules), 413);
  head = post_head();
  head.ambiguous = true;
  EXPECT_EQ(status_of(head, rules), 400);
}

TEST(CheckHead, KnowsPathsAndMethods) {
  const AccessRules rules;
  RequestHead head = post_head();
  EXPECT_EQ(status_of(head, rules, std::nullopt), 404);
  head.method = "GET";
  const auto refusal = check_head(head, kPost, rules);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 405);
  EXPECT_EQ(refusal->fields, (std::vector<Field>{{"Allow", "POST, OPTIONS"}}));
  for (const char* method : {"PUT", "DELETE", "TRACE", "CONNECT", "BREW", "get"}) {
    head.method = method;
    EXPECT_EQ(status_of(head, rules), 405) << method;
  }
  head.method = "HEAD";
  head.content_length.reset();
  EXPECT_EQ(status_of(head, rules, kPublic), 200);
  head.target = "http://other/v1/x";
  EXPECT_EQ(status_of(head, rules, kPublic), 400);
  head.target = "*";
  EXPECT_EQ(status_of(head, rules, kPublic), 400);
}

// W11
TEST(CheckHead, WantsAKey) {
  const AccessRules rules{.keys = {"first-key", "second"}, .hosts = {}, .origins = {}};
  RequestHead head = post_head();
  EXPECT_EQ(status_of(head, rules), 401);
  for (const char* value : {"Bearer first-key", "bearer second", "BEARER  second "}) {
    head.authorization = value;
    EXPECT_EQ(status_of(head, rules), 200) << value;
  }
  for (const char* value : {"Bearer", "Bearer ", "Bearer first-ke", "Bearer first-keys", "Bearer First-key",
                            "Basic first-key", "first-key", "Bearer first-key second", "Bearer firstfirst"}) {
    head.authorization = value;
    EXPECT_EQ(status_of(head, rules), 401) << value;
  }
  head.authorization.reset();
  head.api_key = "second";
  EXPECT_EQ(status_of(head, rules), 200);
  head.api_key = "third";
  EXPECT_EQ(status_of(head, rules), 401);
  head.api_key.reset();
  head.target = "/v1/x?key=second";  // never from where it would be logged
  EXPECT_EQ(status_of(head, rules), 401);
  // Without a key, nobody learns which paths there are; but how the server is.
  EXPECT_EQ(status_of(head, rules, std::nullopt), 401);
  head.method = "GET";
  EXPECT_EQ(status_of(head, rules, kPublic), 200);
}

TEST(CheckHead, AnswersNeverQuoteAKey) {
  const AccessRules rules{.keys = {"first-key"}, .hosts = {}, .origins = {}};
  RequestHead head = post_head();
  head.api_key = "first-kez";
  const auto refusal = check_head(head, kPost, rules);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message.find("first-ke"), std::string::npos);
}

TEST(IsKey, ComparesWholeKeys) {
  const std::vector<std::string> keys = {"abcabc", "x"};
  for (const char* wrong : {"", "a", "abc", "abcabcabc", "abcabd", "xbcabc", "xx", "xxx"}) {
    EXPECT_FALSE(is_key(wrong, keys)) << wrong;
  }
  EXPECT_TRUE(is_key("abcabc", keys));
  EXPECT_TRUE(is_key("x", keys));
  EXPECT_FALSE(is_key("", {}));
}

TEST(ParseKeys, ReadsListsAndFiles) {
  EXPECT_EQ(*parse_keys(" a \n\n b\r\n", '\n', "f"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*parse_keys("a,b , c", ',', "f"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(parse_keys("\n \n", '\n', "--api-key-file k").error().message, "--api-key-file k holds no API key");
  const auto bad = parse_keys("good\nse cret\n", '\n', "k");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message.find("se cret"), std::string::npos);
}

TEST(Preflight, TellsNothingToForeignPages) {
  AccessRules rules;
  RequestHead head = post_head();
  head.method = "OPTIONS";
  head.preflight_method = "POST";
  EXPECT_EQ(preflight_answer(head, kPost, rules).fields, (std::vector<Field>{{"Allow", "POST, OPTIONS"}}));
  rules.origins = {"https://app.example"};
  head.origin = "https://app.example";
  head.preflight_fields = "authorization, content-type";
  const Answer answer = preflight_answer(head, kPost, rules);
  EXPECT_EQ(answer.fields.size(), 4u);
  EXPECT_EQ(answer.fields.back(), (Field{"Access-Control-Allow-Headers", "authorization, content-type"}));
  head.preflight_fields = "x\r\nSet-Cookie: a";
  EXPECT_EQ(preflight_answer(head, kPost, rules).fields.size(), 3u);
}

TEST(JsonDepth, CountsWhatIsOutsideOfTexts) {
  EXPECT_TRUE(within_json_depth("[[[]]]", 3));
  EXPECT_FALSE(within_json_depth("[[[]]]", 2));
  EXPECT_TRUE(within_json_depth("[\"[[[[\", {\"a\\\"[[[\": 1}]", 2));
  EXPECT_FALSE(within_json_depth("{\"a\":{\"b\":[1]}}", 2));
  EXPECT_TRUE(within_json_depth("[],[],[],[]", 1));
  EXPECT_TRUE(within_json_depth("\"\\", 1));
  EXPECT_FALSE(within_json_depth(std::string(10'000'000, '['), 64));
}

// W02: a rule that no page can ever match is a mistake that should be told at once.
TEST(OriginRule, IsWhatBrowsersSend) {
  for (const char* origin : {"*", "https://app.example", "http://localhost:3000", "http://127.0.0.1:8000",
                             "http://[::1]:5173", "https://a-b_c.example:8443", "chrome-extension://abcdefgh",
                             "http://localhost:1", "http://localhost:65535"}) {
    EXPECT_TRUE(check_origin_rule(origin, "--cors-origin").ok()) << origin;
  }
  for (const char* origin : {"", "app.example", "https://", "https://app.example/", "https://app.example/x", "null",
                             "https://App.example", "HTTPS://app.example", "https://app.example:443",
                             "http://localhost:80", "http://localhost:", "http://localhost:123456",
                             "http://a:0", "http://a:65536", "http://a:99999", "http://[::1]:0", "http://a:03000",
                             "https://*.example", "https://a b", "https://user@app.example",
                             "https://app.example?x", "://a", "https:/a", "http://[::1",
                             "http://b\xc3\xbc.example", "https://a\r\nX: y"}) {
    const Status status = check_origin_rule(origin, "--cors-origin");
    ASSERT_FALSE(status.ok()) << origin;
    EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
    EXPECT_EQ(status.error().message.find("--cors-origin: '"), 0u) << status.error().message;
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
  }
}

// W01
TEST(HostRule, IsANameAlone) {
  for (const char* host : {"box.local", "a", "gpu_1", "10.0.0.1", "[::1]"}) {
    EXPECT_TRUE(check_host_rule(host, "--allow-host").ok()) << host;
  }
  for (const char* host : {"", "box.local:8080", "http://box.local", "box/", "a b", "box.local.", "*", "[::1]:80"}) {
    EXPECT_FALSE(check_host_rule(host, "--allow-host").ok()) << host;
  }
}

}  // namespace
}  // namespace strata::server::http
