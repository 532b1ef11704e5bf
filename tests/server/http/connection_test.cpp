// Goal: whatever bytes come over a connection, it answers as HTTP wants or ends, within its limits and times, while
// others are served. Method: a server over a stub, and clients that say exactly the bytes of a test.
#include <cstring>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "server/support/running.h"

namespace strata::server {
namespace {

using test::get;
using test::post;
using test::Wire;
using test::WireAnswer;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Connection, KeepsAliveAndAnswersInOrder) {
  Running running;
  Wire wire = running.connect();
  // Three at once, one of them with a stream.
  ASSERT_TRUE(wire.send(post("/plain", R"({"tokens":2})") + post("/plain", R"({"tokens":3,"stream":true})") +
                        get("/health")));
  const auto first = wire.answer();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(first->body, R"({"error":"","finish":[2],"text":["xx"]})");
  EXPECT_EQ(first->fields.at("connection"), "keep-alive");
  const auto second = wire.answer();
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->chunked);
  EXPECT_EQ(second->fields.at("content-type"), "text/event-stream");
  EXPECT_EQ(second->body, "data: x\n\ndata: x\n\ndata: x\n\ndata: [DONE]\n\n");
  const auto third = wire.answer();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->body, "{\"status\":\"ok\"}\n");
  EXPECT_NE(first->fields.at("x-request-id"), second->fields.at("x-request-id"));
}

TEST(Connection, EndsWhenItIsAskedTo) {
  Running running;
  for (const char* request : {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                              "GET /health HTTP/1.0\r\n\r\n"}) {
    Wire wire = running.connect();
    ASSERT_TRUE(wire.send(request));
    const auto answer = wire.answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->fields.at("connection"), "close");
    EXPECT_TRUE(wire.closed_by_server());
  }
  Wire old = running.connect();
  ASSERT_TRUE(old.send("POST /plain HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"
                       "{\"tokens\":1,\"stream\":true }"));
  const auto answer = old.answer();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->chunked);
  EXPECT_EQ(answer->body, "data: x\n\ndata: [DONE]\n\n");
}

TEST(Connection, KnowsMethodsAndPaths) {
  Running running;
  const WireAnswer head = running.ask("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields.at("content-length"), "16");
  const WireAnswer options = running.ask("OPTIONS /plain HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.fields.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(running.ask(get("/plain")).status, 405);
  EXPECT_EQ(running.ask(post("/health", "{}")).status, 405);
  const WireAnswer missing = running.ask(get("/nothing?x=1"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_TRUE(has(missing.body, "\"error\"")) << missing.body;
  EXPECT_EQ(running.ask("POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
                        "Content-Length: 2\r\n\r\n{}").status, 415);
  EXPECT_EQ(running.ask(get("/things/a%2Fb%20c")).body, R"({"name":"a/b c"})");
  EXPECT_EQ(running.ask(get("/things/x/y?z")).body, R"({"name":"x/y"})");
  EXPECT_EQ(running.ask(get("/things/%zz")).status, 404);
  // An error in the form of the path's own API, also of what goes on from such a path.
  EXPECT_TRUE(has(running.ask(post("/things/a", "{}")).body, "\"type\":\"error\""));
  const WireAnswer below = running.ask(post("/plain/batches", "{}"));
  EXPECT_EQ(below.status, 404);
  EXPECT_FALSE(has(below.body, "\"type\":\"error\"")) << below.body;
  EXPECT_FALSE(has(running.ask(get("/plainer")).body, "\"type\":\"error\""));
}

// W07, W08: no path of a request is a file's.
TEST(Connection, ServesNoFiles) {
  Running running;
  for (const char* path : {"/../../etc/passwd", "/..%2f..%2fetc/passwd", "/etc/passwd", "//etc/passwd", "/.env",
                           "/health/../../etc/passwd", "/things/../../etc/passwd", "/%00", "/index.html"}) {
    const WireAnswer answer = running.ask(get(path));
    EXPECT_TRUE(answer.status == 404 || answer.status == 200) << path;
    EXPECT_FALSE(has(answer.body, "root:")) << path;
  }
}

// P10
TEST(Connection, ReadsChunksAndRefusesBrokenOnes) {
  Running running;
  const std::string head = "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Transfer-Encoding: chunked\r\n";
  const std::string chunks = "5\r\n{\"tok\r\n8;x=y\r\nens\": 1}\r\n0\r\nTrailer: thrown away\r\n\r\n";
  EXPECT_EQ(running.ask(head + "\r\n" + chunks).status, 200);
  EXPECT_EQ(running.ask(head + "\r\nzz\r\n{}\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(running.ask(head + "\r\n2\r\n{}xx0\r\n\r\n").status, 400);
  EXPECT_EQ(running.ask(head + "\r\n-2\r\n{}\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(running.ask(head + "\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(running.ask(head + "Content-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(running.ask("POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ").status, 400);
  Wire cut = running.connect();
  ASSERT_TRUE(cut.send(head + "\r\n5\r\n{\"t"));
  cut.end_sending();
  EXPECT_TRUE(cut.closed_by_server());
  EXPECT_EQ(running.stub().submitted(), 1);  // P11: nothing is begun by half a body
}

// P10, W10
TEST(Connection, RefusesLargeBodies) {
  ServerOptions options;
  options.access.max_body_bytes = 1000;
  Running running({}, options);
  EXPECT_EQ(running.ask(post("/plain", std::string(1001, ' '))).status, 413);
  EXPECT_EQ(running.ask("POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: 1073741824\r\n\r\n").status, 413);  // without a byte of it
  std::string chunks = "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 101; i++) chunks += "a\r\n0123456789\r\n";
  EXPECT_EQ(running.ask(chunks).status, 413);
  EXPECT_EQ(running.ask(post("/plain", "{" + std::string(998, ' ') + "}")).status, 200);
}

TEST(Connection, RefusesMoreLargeBodiesThanItHasMemoryFor) {
  ServerOptions options;
  options.access.max_body_bytes = 100'000;
  options.http.max_body_budget = 2;
  Running running({}, options);
  const std::string head = "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Content-Length: 100000\r\n\r\n";
  std::vector<Wire> wires;
  for (int i = 0; i < 4; i++) {
    wires.push_back(running.connect());
    ASSERT_TRUE(wires.back().send(head + std::string(90'000, ' ')));
  }
  // The refused ones have gone before any that has room can end and give it back.
  ASSERT_TRUE(soon([&] { return running.server->connections() == 2; }));
  int refused = 0;
  for (Wire& wire : wires) {
    // Those that have room wait for the rest of their bodies.
    static_cast<void>(wire.send(std::string(9'998, ' ') + "{}"));
    const auto answer = wire.answer();
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->status == 200 || answer->status == 503);
    refused += answer->status == 503;
  }
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(running.ask(post("/plain", "{}")).status, 200);  // it comes back
}

// W10: bodies that wait for their last bytes use up what is there for large ones, but small ones are still served.
TEST(Connection, ServesSmallBodiesBesideManyLargeOnes) {
  ServerOptions options;
  options.access.max_body_bytes = 1 << 20;
  options.http.max_body_budget = 2;
  Running running({}, options);
  const std::string large = std::string(700'000, ' ');
  const std::string head = "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Content-Length: 1000000\r\n\r\n";
  std::vector<Wire> waiting;
  // Which of those that come at once is refused depends on which are read first: until it is the one that asks.
  EXPECT_TRUE(soon([&] {
    waiting.push_back(running.connect());
    static_cast<void>(waiting.back().send(head + large));
    return running.ask(post("/plain", large + "{}")).status == 503;
  }));
  EXPECT_EQ(running.ask(post("/plain", std::string(100'000, ' ') + "{}")).status, 200);
}

// W10: header floods and what is no HTTP at all.
TEST(Connection, RefusesWhatIsNoRequest) {
  Running running;
  EXPECT_EQ(running.ask(get("/health", "X: " + std::string(1 << 20, 'x') + "\r\n")).status, 431);
  std::string many;
  for (int i = 0; i < 5000; i++) many += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(running.ask(get("/health", many)).status, 431);
  EXPECT_EQ(running.ask(get("/" + std::string(100'000, 'a'))).status, 431);
  for (const char* request :
       {"NONSENSE\r\n\r\n", "GET /health\r\n\r\n", "GET /health HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x01z\r\n\r\n", "GET  /health HTTP/1.1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHo st: x\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"}) {
    EXPECT_EQ(running.ask(request).status, 400) << request;
  }
  EXPECT_EQ(running.ask("GET /health HTTP/2.0\r\nHost: x\r\n\r\n").status, 505);
}

TEST(Connection, SaysContinue) {
  Running running;
  Wire wire = running.connect();
  ASSERT_TRUE(wire.send("POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  const auto interim = wire.answer();
  ASSERT_TRUE(interim);
  EXPECT_EQ(interim->status, 100);
  ASSERT_TRUE(wire.send("{}"));
  const auto answer = wire.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  // One that is refused anyway is not asked for its body.
  EXPECT_EQ(running.ask("POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                        "Expect: 100-continue\r\n\r\n").status, 404);
}

// W10: those that say little or nothing lose their connection, and others don't notice.
TEST(Connection, HasDeadlines) {
  ServerOptions options;
  options.http.header_timeout_ms = 200;
  options.http.idle_timeout_ms = 200;
  options.http.body_timeout_ms = 200;
  Running running({}, options);
  Wire silent = running.connect(), head = running.connect(), body = running.connect(), idle = running.connect();
  ASSERT_TRUE(head.send("GET /health HT"));
  ASSERT_TRUE(body.send("POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: 100000\r\n\r\n{"));
  ASSERT_TRUE(idle.send(get("/health")));
  ASSERT_TRUE(idle.answer());
  EXPECT_TRUE(silent.closed_by_server());
  const auto late_head = head.answer(), late_body = body.answer();
  ASSERT_TRUE(late_head && late_body);
  EXPECT_EQ(late_head->status, 408);
  EXPECT_EQ(late_body->status, 408);
  EXPECT_TRUE(head.closed_by_server());
  EXPECT_TRUE(body.closed_by_server());
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
}

// W10: a byte now and then buys no more time.
TEST(Connection, TakesNoTrickle) {
  ServerOptions options;
  options.http.header_timeout_ms = 300;
  options.http.body_timeout_ms = 300;
  Running running({}, options);
  for (const std::string begin : {"GET /health HTTP/1.1\r\nX: ",
                                  "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                  "Content-Length: 1000000\r\n\r\n{",
                                  "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\nffffff\r\n{"}) {
    Wire wire = running.connect();
    ASSERT_TRUE(wire.send(begin));
    int sent = 0;
    for (; sent < 6000 && wire.send(" "); sent++) real_clock().sleep_ns(5'000'000);
    EXPECT_LT(sent, 6000) << begin;
    EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
  }
  EXPECT_EQ(running.stub().submitted(), 0);
}

// W10: slowloris.
TEST(Connection, ServesOthersBesideAThousandSlowOnes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2200) GTEST_SKIP() << "too few descriptors";
  ServerOptions options;
  options.http.max_connections = 800;
  Running running({}, options);
  std::vector<Wire> slow;
  for (int i = 0; i < 1000; i++) {
    slow.push_back(running.connect());
    ASSERT_TRUE(slow.back().connected()) << i << ": " << std::strerror(errno);
    ASSERT_TRUE(slow.back().send("POST /plain HTTP/1.1\r\nHost: loc"));
    const bool other = i % 100 == 99;
    EXPECT_EQ(other ? running.ask(post("/plain", "{}")).status : 200, 200);
  }
  EXPECT_LE(running.server->connections(), 800u);
  EXPECT_EQ(running.ask(post("/plain", "{}")).status, 200);
}

// A stream's client that does not read is dropped when what waits for him has reached its limit.
TEST(Connection, DropsSlowReaders) {
  ServerOptions options;
  options.http.max_pending_bytes = 64 << 10;
  options.http.send_buffer_bytes = 16 << 10;
  Running running({.piece = std::string(1000, 'y')}, options);
  Wire wire = running.connect(4 << 10);
  ASSERT_TRUE(wire.send(post("/plain", R"({"tokens":1000000,"stream":true})")));
  EXPECT_TRUE(soon([&] { return running.stub().finished() == 1; }));
  EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
  EXPECT_EQ(running.server->under_way(), 0);
}

// The same for an answer that is whole: it waits as long as it is being read.
TEST(Connection, EndsAnswersThatNobodyTakes) {
  ServerOptions options;
  options.http.write_timeout_ms = 200;
  options.http.send_buffer_bytes = 16 << 10;
  Running running({.piece = std::string(1000, 'y')}, options);
  Wire wire = running.connect(4 << 10);
  ASSERT_TRUE(wire.send(post("/plain", R"({"tokens":10000})")));
  EXPECT_TRUE(soon([&] { return running.stub().finished() == 1; }));
  EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
}

TEST(Connection, DescriptorsComeBack) {
  Running running;
  for (int round = 0; round < 50; round++) {
    Wire done = running.connect(), half = running.connect(), gone = running.connect();
    ASSERT_TRUE(done.send(get("/health")));
    ASSERT_TRUE(done.answer());
    ASSERT_TRUE(half.send("POST /plain HTTP/1.1\r\n"));
    half.reset();
    ASSERT_TRUE(gone.send(post("/plain", R"({"tokens":100000,"stream":true})")));
    gone.reset();
  }
  EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
  EXPECT_TRUE(soon([&] { return running.server->under_way() == 0; }));
}

// W01, W02, W11 on the wire.
TEST(Connection, GuardsItself) {
  ServerOptions options;
  options.access.origins = {"https://app.example"};
  Running open({}, options);
  const std::string body = "Content-Type: application/json\r\nContent-Length: 2\r\n";
  EXPECT_EQ(open.ask("POST /plain HTTP/1.1\r\nHost: evil.example\r\n" + body + "\r\n{}").status, 403);
  const WireAnswer foreign = open.ask(post("/plain", "{}", "Origin: https://evil\r\n"));
  EXPECT_EQ(foreign.status, 403);
  EXPECT_FALSE(foreign.fields.contains("access-control-allow-origin"));
  const WireAnswer known = open.ask(post("/plain", "{}", "Origin: https://app.example\r\n"));
  EXPECT_EQ(known.status, 200);
  EXPECT_EQ(known.fields.at("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(known.fields.at("vary"), "Origin");
  EXPECT_FALSE(open.ask(get("/health")).fields.contains("access-control-allow-origin"));

  options.access.keys = {"k1", "k2"};
  Running closed({}, options);
  EXPECT_EQ(closed.ask(post("/plain", "{}")).status, 401);
  EXPECT_EQ(closed.ask(post("/plain", "{}", "x-api-key: k3\r\n")).status, 401);
  EXPECT_EQ(closed.ask(post("/plain", "{}", "x-api-key: k2\r\n")).status, 200);
  EXPECT_EQ(closed.ask(get("/metrics")).status, 401);
  EXPECT_EQ(closed.ask(get("/health")).status, 200);
}

TEST(Listen, RefusesAddressesItShouldNotOrCannotHave) {
  Running running;
  ServerOptions options;
  options.address.port = running.server->port();  // M16
  const auto taken = Server::listen(options);
  ASSERT_FALSE(taken.ok());
  EXPECT_TRUE(has(taken.error().message, "Address already in use")) << taken.error().message;
  options.address = {.host = "0.0.0.0", .port = 0};
  const auto open = Server::listen(options);
  ASSERT_FALSE(open.ok());
  EXPECT_TRUE(has(open.error().message, "--api-key")) << open.error().message;
  options.access.keys = {"k"};
  EXPECT_TRUE(Server::listen(options).ok());
  options.access.keys = {};
  options.allow_open = true;
  EXPECT_TRUE(Server::listen(options).ok());
  options.address.host = "host.invalid";
  EXPECT_FALSE(Server::listen(options).ok());
  options.address.host = "192.0.2.1";  // nobody's
  EXPECT_FALSE(Server::listen(options).ok());
}

}  // namespace
}  // namespace strata::server
