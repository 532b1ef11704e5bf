// Goal: a request ends when it should, however it ends; what it held is given back, and others are not disturbed.
// Method: a stub that computes a step when a test says so.
#include <gtest/gtest.h>

#include "server/support/running.h"

namespace strata::server {
namespace {

using test::get;
using test::post;
using test::Wire;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

const char* const kLong = R"({"tokens":1000000})";
const char* const kLongStream = R"({"tokens":1000000,"stream":true})";

// A01: in the prompt, and in the answer; streamed and not.
TEST(Cancel, StopsWithinAStepWhenTheClientGoes) {
  for (const char* body : {kLong, kLongStream}) {
    for (const int64_t steps : {1, 3, 20}) {
      Running running({.stepping = true, .prompt_steps = 10});
      Wire wire = running.connect();
      ASSERT_TRUE(wire.send(post("/plain", body)));
      ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
      running.stub().step(steps);
      ASSERT_TRUE(soon([&] { return running.stub().steps() == steps; }));
      wire.close();
      EXPECT_TRUE(soon([&] { return running.stub().finished() == 1; }));  // without another step
      EXPECT_EQ(running.stub().steps(), steps);
      EXPECT_TRUE(soon([&] { return running.server->under_way() == 0; }));
    }
  }
}

// A01's neighbour: a client who has said all he has to say, as nc -N and some proxies do, waits for his answer. When he
// has gone after all, his request ends.
TEST(HalfClosed, ClientsGetTheirAnswers) {
  for (const char* body : {R"({"tokens":3})", R"({"tokens":3,"stream":true})"}) {
    Running running({.stepping = true, .prompt_steps = 4});
    Wire wire = running.connect();
    ASSERT_TRUE(wire.send(post("/plain", body)));
    wire.end_sending();
    ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
    running.stub().step(2);
    ASSERT_TRUE(soon([&] { return running.stub().steps() == 2; }));
    running.stub().step(20);
    auto answer = wire.answer();
    while (answer && answer->status == 100) answer = wire.answer();
    ASSERT_TRUE(answer) << body;
    EXPECT_EQ(answer->status, 200);
    EXPECT_TRUE(has(answer->body, "xxx") || answer->body.ends_with("data: x\n\ndata: [DONE]\n\n")) << answer->body;
    EXPECT_TRUE(wire.closed_by_server());
    EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
  }
}

TEST(HalfClosed, ClientsGetAllTheyAskedFor) {
  Running running;
  Wire wire = running.connect();
  ASSERT_TRUE(wire.send(post("/plain", R"({"tokens":2})") + get("/health") + post("/plain", R"({"tokens":1})")));
  wire.end_sending();
  std::string bodies;
  for (int answers = 0; answers < 3;) {
    const auto answer = wire.answer();
    ASSERT_TRUE(answer) << bodies;
    if (answer->status == 100) continue;
    EXPECT_EQ(answer->status, 200);
    bodies += answer->body;
    answers++;
  }
  EXPECT_TRUE(has(bodies, "xx") && has(bodies, "\"ok\"")) << bodies;
  EXPECT_TRUE(wire.closed_by_server());
}

TEST(HalfClosed, ClientsThatHaveGoneLaterAreFound) {
  ServerOptions options;
  options.http.probe_ms = 20;
  for (const char* body : {kLong, kLongStream}) {
    Running running({.stepping = true, .prompt_steps = 10}, options);
    Wire wire = running.connect();
    ASSERT_TRUE(wire.send(post("/plain", body)));
    ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
    wire.end_sending();
    ASSERT_TRUE(wire.wait_for(body == kLong ? "100 Continue" : ": waiting"));
    EXPECT_EQ(running.stub().finished(), 0);
    wire.close();
    EXPECT_TRUE(soon([&] { return running.stub().finished() == 1; }));  // without a step
    EXPECT_TRUE(soon([&] { return running.server->under_way() == 0; }));
  }
}

// There nothing may be said before an answer.
TEST(HalfClosed, ClientsOfOldHaveGone) {
  Running running({.stepping = true});
  Wire wire = running.connect();
  ASSERT_TRUE(wire.send("POST /plain HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
  wire.end_sending();
  EXPECT_TRUE(soon([&] { return running.stub().finished() == 1; }));
}

// A02
TEST(Cancel, NeverStartsWhatIsQueued) {
  Running running({.slots = 1, .stepping = true});
  Wire a = running.connect(), b = running.connect();
  ASSERT_TRUE(a.send(post("/plain", R"({"tokens":3})")));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
  running.stub().step(2);
  ASSERT_TRUE(soon([&] { return running.stub().started() == 1; }));
  ASSERT_TRUE(b.send(post("/plain", kLong)));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 2; }));
  b.close();
  ASSERT_TRUE(soon([&] { return running.stub().finished() == 1; }));
  running.stub().step(10);
  const auto answer = a.answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(has(answer->body, "xxx"));
  EXPECT_EQ(running.stub().started(), 1);
}

TEST(Queue, IsBoundedAndSaysWhenToTryAgain) {
  ServerOptions options;
  options.service.max_queue = 1;
  Running running({.slots = 1, .stepping = true}, options);
  Wire a = running.connect(), b = running.connect();
  ASSERT_TRUE(a.send(post("/plain", "{}")));
  ASSERT_TRUE(b.send(post("/plain", "{}")));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 2; }));
  const auto refused = running.ask(post("/plain", R"({"stream":true})"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_GE(std::stoi(refused.fields.at("retry-after")), 1);
  EXPECT_TRUE(has(refused.body, "rate_limit"));
  running.stub().step(1000);
  EXPECT_EQ(a.answer()->status, 200);
  EXPECT_EQ(b.answer()->status, 200);
  EXPECT_EQ(running.ask(post("/plain", "{}")).status, 200);
}

TEST(Queue, TakesAllAnswersOfARequestOrNone) {
  ServerOptions options;
  options.service.max_queue = 2;
  Running running({.slots = 1, .stepping = true}, options);
  Wire a = running.connect();
  ASSERT_TRUE(a.send(post("/plain", R"({"n":2,"tokens":2})")));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 2; }));
  EXPECT_EQ(running.ask(post("/plain", R"({"n":2})")).status, 429);
  EXPECT_EQ(running.ask(post("/plain", R"({"n":4})")).status, 400);  // it would never be taken
  EXPECT_EQ(running.stub().submitted(), 2);
  running.stub().step(1000);
  EXPECT_TRUE(has(a.answer()->body, R"("text":["xx","xx"])"));
  EXPECT_EQ(running.server->under_way(), 0);
}

TEST(Loading, IsA503WithProgress) {
  Running running({.loading = true});
  const auto refused = running.ask(post("/plain", "{}"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(has(refused.body, "25 %")) << refused.body;
  EXPECT_GE(std::stoi(refused.fields.at("retry-after")), 1);
  const auto health = running.ask(get("/health"));
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.body, "{\"status\":\"loading\",\"progress\":0.25,\"seconds\":3.0}\n");
  EXPECT_EQ(running.ask(get("/metrics")).status, 200);
  running.stub().finish_loading();
  EXPECT_EQ(running.ask(post("/plain", "{}")).status, 200);
  EXPECT_EQ(running.ask(get("/health")).status, 200);
}

TEST(Timeout, EndsARequestWhereverItIs) {
  ServerOptions options;
  options.service.request_timeout_s = 1;
  Running running({.slots = 1, .stepping = true}, options);
  Wire computed = running.connect(), queued = running.connect();
  ASSERT_TRUE(computed.send(post("/plain", kLongStream)));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
  running.stub().step(3);
  ASSERT_TRUE(queued.send(post("/plain", kLong)));
  const auto whole = queued.answer();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->status, 504);
  EXPECT_TRUE(has(whole->body, "longer than 1 s")) << whole->body;
  const auto stream = computed.answer();
  ASSERT_TRUE(stream);
  EXPECT_TRUE(has(stream->body, "event: error\ndata: the request took longer")) << stream->body;
  EXPECT_TRUE(stream->body.ends_with("data: [DONE]\n\n"));
}

// P05
TEST(Stream, IsKeptAliveInSilence) {
  EXPECT_LT(ServiceOptions{}.keep_alive_ms + http::HttpOptions{}.tick_ms, 15'000);
  ServerOptions options;
  options.service.keep_alive_ms = 50;
  Running running({.stepping = true}, options);
  Wire wire = running.connect();
  ASSERT_TRUE(wire.send(post("/plain", R"({"tokens":1,"stream":true})")));
  ASSERT_TRUE(wire.wait_for("\r\n\r\n"));  // the head comes at once
  ASSERT_TRUE(wire.wait_for(": still here\n\n"));
  running.stub().step(10);
  const auto answer = wire.answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->body.ends_with("data: x\n\ndata: [DONE]\n\n"));
}

// P05's neighbour: one that waits for a slot hears as much.
TEST(Stream, IsKeptAliveInTheQueue) {
  ServerOptions options;
  options.service.keep_alive_ms = 50;
  Running running({.slots = 1, .stepping = true}, options);
  Wire computed = running.connect(), queued = running.connect();
  ASSERT_TRUE(computed.send(post("/plain", kLong)));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
  ASSERT_TRUE(queued.send(post("/plain", kLongStream)));
  EXPECT_TRUE(queued.wait_for("\r\n\r\n"));
  EXPECT_TRUE(queued.wait_for(": still here\n\n"));
  EXPECT_EQ(running.stub().started(), 0);
}

TEST(Failure, OfTheGeneratorEndsTheRequestAlone) {
  Running running({.fail_after = 2});
  EXPECT_EQ(running.ask(post("/plain", R"({"tokens":9})")).status, 500);
  EXPECT_EQ(running.ask(post("/plain", R"({"tokens":1})")).status, 200);
  EXPECT_EQ(running.server->under_way(), 0);
}

TEST(Failure, OfAnApiIsA500AndNoMore) {
  Running running;
  const auto broken = running.ask(post("/plain", "{"));  // its parser throws
  EXPECT_EQ(broken.status, 500);
  EXPECT_FALSE(has(broken.body, "parse_error")) << broken.body;
  EXPECT_EQ(running.ask(post("/plain", R"({"throw":true,"tokens":1000000})")).status, 500);
  Wire stream = running.connect();
  ASSERT_TRUE(stream.send(post("/plain", R"({"throw":true,"stream":true,"tokens":1000000})")));
  const auto cut = stream.answer();
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->body, "event: error\ndata: internal_error\n\ndata: [DONE]\n\n");  // P01: an end, and which
  EXPECT_EQ(running.server->under_way(), 0);
  EXPECT_EQ(running.ask(post("/plain", "{}")).status, 200);
}

TEST(Json, IsRefusedWhenItIsNestedTooDeeply) {
  Running running;
  std::string deep = "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const auto refused = running.ask(post("/plain", deep));
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(has(refused.body, "nested")) << refused.body;
}

TEST(ShutDown, LetsRequestsEndWithinItsLimit) {
  Running running;
  Wire idle = running.connect(), streaming = running.connect();
  ASSERT_TRUE(idle.send(get("/health")));
  ASSERT_TRUE(idle.answer());
  ASSERT_TRUE(streaming.send(post("/plain", R"({"tokens":2000,"stream":true})")));
  ASSERT_TRUE(streaming.wait_for("data: x"));
  running.server->shut_down(30'000);
  const auto answer = streaming.answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->body.ends_with("data: [DONE]\n\n"));
  EXPECT_FALSE(has(answer->body, "error"));
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_FALSE(running.connect().connected());
}

TEST(ShutDown, EndsWhatTakesLonger) {
  Running running({.slots = 1, .stepping = true});
  Wire computed = running.connect(), queued = running.connect();
  ASSERT_TRUE(computed.send(post("/plain", kLongStream)));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 1; }));
  running.stub().step(3);
  ASSERT_TRUE(queued.send(post("/plain", kLong)));
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 2; }));
  running.server->shut_down(50);
  const auto stream = computed.answer();
  ASSERT_TRUE(stream);
  EXPECT_TRUE(has(stream->body, "shutting down"));
  const auto whole = queued.answer();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->status, 503);
  EXPECT_TRUE(has(whole->body, "shutting down"));
  EXPECT_EQ(running.stub().finished(), 2);
}

TEST(Server, DiesInTheMiddleOfEverything) {
  for (int i = 0; i < 20; i++) {
    Running running({.slots = 2});
    std::vector<Wire> wires;
    for (int k = 0; k < 8; k++) {
      wires.push_back(running.connect());
      ASSERT_TRUE(wires.back().send(post("/plain", k % 2 == 0 ? kLong : kLongStream)));
    }
    ASSERT_TRUE(soon([&] { return running.stub().submitted() > i % 2 * 2; }));
    running.server.reset();
    for (Wire& wire : wires) EXPECT_TRUE(wire.closed_by_server());
  }
}

TEST(Pages, TellHowFarRequestsAre) {
  Running running({.slots = 2, .stepping = true, .prompt_steps = 4});
  Wire a = running.connect(), b = running.connect(), c = running.connect();
  for (Wire* wire : {&a, &b, &c}) {
    ASSERT_TRUE(wire->send(post("/plain", R"({"prompt":40,"tokens":1000000,"stream":true})")));
  }
  ASSERT_TRUE(soon([&] { return running.stub().submitted() == 3; }));
  running.stub().step(3);
  ASSERT_TRUE(soon([&] { return running.stub().steps() == 3; }));
  const auto in_prompt = [&] { return running.ask(get("/slots")).body; };
  EXPECT_TRUE(soon([&] { return has(in_prompt(), R"("state":"prompt","prompt_tokens":40,"prompt_done":30)"); }));
  EXPECT_TRUE(has(in_prompt(), R"({"id":1,"is_processing":true)"));
  running.stub().step(3);
  const char* const answering = R"("state":"answer","prompt_tokens":40,"prompt_done":40,"answer_tokens":2)";
  EXPECT_TRUE(soon([&] { return has(in_prompt(), answering); }));
  const std::string text = running.ask(get("/metrics")).body;
  EXPECT_TRUE(has(text, "vllm:num_requests_running{model_name=\"stub\"} 2\n")) << text;
  EXPECT_TRUE(has(text, "vllm:num_requests_waiting{model_name=\"stub\"} 1\n"));
  EXPECT_TRUE(has(text, "vllm:time_to_first_token_seconds_count{model_name=\"stub\"} 2\n"));
  a.close(), b.close(), c.close();
  ASSERT_TRUE(soon([&] { return running.server->under_way() == 0; }));
  const std::string after = running.ask(get("/metrics")).body;
  EXPECT_TRUE(has(after, "vllm:num_requests_running{model_name=\"stub\"} 0\n"));
  EXPECT_TRUE(has(after, "finished_reason=\"abort\",cause=\"cancelled\"} 3\n")) << after;
  EXPECT_TRUE(has(running.ask(get("/slots")).body, "[{\"id\":0,\"is_processing\":false},{"));
}

}  // namespace
}  // namespace strata::server
