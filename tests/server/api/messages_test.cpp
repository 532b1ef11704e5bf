// Goal: messages as clients of Anthropic send and expect them.
#include <gtest/gtest.h>

#include "server/api/put_together.h"
#include "server/api/sse_grammar.h"

namespace strata::server {
namespace {

using engine::Finish;

constexpr const char* kPath = "/v1/messages";

Json request(Json more = Json::object()) {
  Json body = {{"model", "any"}, {"max_tokens", 500},
               {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  body.update(more);
  return body;
}

Json tools() {
  return parse(R"([{"name": "get_weather", "description": "x", "cache_control": {"type": "ephemeral"},
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"type": "custom", "name": "now"}])");
}

Reply streamed(ApiRig& rig, Json body, const Script& script) {
  body["stream"] = true;
  const Reply reply = rig.ask(kPath, body, script);
  EXPECT_EQ(fault_of_message_stream(reply.events), "");
  EXPECT_TRUE(reply.ended);
  return reply;
}

TEST(Messages, AnswersWhole) {
  ApiRig rig(kHermesTemplate);
  const Reply reply = rig.ask(kPath, request(), {.answer = "Hello", .kept_tokens = 4});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body["type"], "message");
  EXPECT_EQ(reply.body["role"], "assistant");
  EXPECT_EQ(reply.body["model"], "tiny");
  EXPECT_EQ(reply.body["content"], parse(R"([{"type": "text", "text": "Hello"}])"));
  EXPECT_EQ(reply.body["stop_reason"], "end_turn");
  EXPECT_EQ(reply.body["stop_sequence"], Json());
  EXPECT_EQ(reply.body["usage"]["input_tokens"], reply.jobs[0].prompt.size() - 4);
  EXPECT_EQ(reply.body["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(reply.body["usage"]["output_tokens"], 5);
}

// P07, P08: reasoning, text, two calls, text: the types of blocks and their indices are kept apart, and the parts of a
// stream make the whole reply.
TEST(Messages, StreamsByTheGrammar) {
  ApiRig rig(kHermesTemplate);
  const std::string call = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}</tool_call>";
  const Script script{.answer = "<think>hm</think>Wait." + call + "\n" + call + "\nDone \xF0\x9F\x98\x80"};
  const Json thinking = {{"type", "enabled"}, {"budget_tokens", 100}};
  for (const Json& body : {request({{"tools", tools()}}), request({{"thinking", thinking}, {"tools", tools()}})}) {
    const Reply whole = rig.ask(kPath, body, script);
    ASSERT_EQ(whole.body["content"].size(), 5u) << whole.body;
    EXPECT_EQ(whole.body["stop_reason"], "tool_use");
    EXPECT_EQ(whole.body["content"][0]["thinking"], "hm");
    EXPECT_EQ(whole.body["content"][2]["input"], parse(R"({"city": "Paris"})"));
    const Reply stream = streamed(rig, body, script);
    EXPECT_EQ(put_blocks_together(stream), whole.body["content"]);
    EXPECT_EQ(stream.events[0].name, "message_start");
    EXPECT_EQ(stream.events[1].name, "ping");
    const Json delta = stream.data()[stream.events.size() - 2];
    EXPECT_EQ(delta["delta"]["stop_reason"], "tool_use");
    EXPECT_EQ(delta["usage"]["output_tokens"], script.answer.size());
  }
  streamed(rig, request(), {.answer = ""});
}

TEST(Messages, NamesHowAnswersEnd) {
  ApiRig rig(kHermesTemplate);
  const Json stops = {{"stop_sequences", Json::array({"", "STOP", "END"})}};
  const Reply stopped = rig.ask(kPath, request(stops), {.answer = "abcENDdef"});
  EXPECT_EQ(stopped.body["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped.body["stop_sequence"], "END");
  EXPECT_EQ(stopped.body["content"][0]["text"], "abc");
  const Reply stream = streamed(rig, request(stops), {.answer = "abcENDdef"});
  EXPECT_EQ(stream.data()[stream.events.size() - 2]["delta"]["stop_sequence"], "END");
  EXPECT_EQ(rig.ask(kPath, request({{"max_tokens", 2}}), {.answer = "abc"}).body["stop_reason"], "max_tokens");
  const Script full{.answer = "abc", .end = Finish::kContextFull};
  EXPECT_EQ(rig.ask(kPath, request(), full).body["stop_reason"], "max_tokens");
}

// K07: what a limit cut off is not made whole.
TEST(Messages, KeepsArgumentsThatAreNoJson) {
  ApiRig rig(kHermesTemplate);
  const Json body = request({{"tools", tools()}, {"max_tokens", 60}});
  const Script script{.answer = "<tool_call>{\"name\": \"get_weather\", \"arguments\": "
                                "{\"city\": \"Paris and more\"}}"};
  const Reply reply = rig.ask(kPath, body, script);
  EXPECT_EQ(reply.body["stop_reason"], "max_tokens");
  EXPECT_EQ(reply.body["content"][0]["input"], parse(R"({"invalid_json": "{\"city\": \"Pa"})"));
  Json more = body;
  more["stream"] = true;
  EXPECT_EQ(fault_of_message_stream(rig.ask(kPath, more, script).events), "");
}

TEST(Messages, SaysWhatFailed) {
  ApiRig rig(kHermesTemplate);
  const Script script{.answer = "abc", .end = Finish::kFailed, .error = Error{ErrorCode::kInternal, "gpu at /x"}};
  const Reply stream = streamed(rig, request(), script);
  EXPECT_EQ(stream.events.back().name, "error");
  EXPECT_EQ(stream.data().back()["error"]["type"], "api_error");
  const Reply whole = rig.ask(kPath, request(), script);
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.body["type"], "error");
  EXPECT_EQ(whole.body.dump().find("/x"), std::string::npos);
  const Reply full = rig.refused(kPath, request({{"stream", true}}), too_many_requests("full", 1));
  EXPECT_EQ(full.body["error"]["type"], "rate_limit_error");
  EXPECT_EQ(rig.refused(kPath, request(), unavailable("loading", 1)).body["error"]["type"], "overloaded_error");
}

TEST(Messages, ReadsWholeHistories) {
  ApiRig rig(kHermesTemplate);
  const Json body = parse(R"({"model": "m", "max_tokens": 5, "stream": false,
    "system": [{"type": "text", "text": "Rules", "cache_control": {"type": "ephemeral"}},
      {"type": "text", "text": "More"}],
    "metadata": {"user_id": "u"}, "messages": [
    {"role": "user", "content": [{"type": "text", "text": "Time?", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
      {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Look."},
      {"type": "tool_use", "id": "t1", "name": "now", "input": {"x": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
        "content": [{"type": "text", "text": "noon"}]},
      {"type": "tool_result", "tool_use_id": "t2", "is_error": true}, {"type": "text", "text": "And?"}]}]})");
  const Reply reply = rig.ask(kPath, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.prompt,
            "<|im_start|>system\nRules\nMore<|im_end|>\n<|im_start|>user\nTime?<|im_end|>\n"
            "<|im_start|>assistant\n<think>hm</think>Look.<tool_call>{\"name\": \"now\", \"arguments\": {\"x\": 1}}"
            "</tool_call><|im_end|>\n<|im_start|>tool\nnoon<|im_end|>\n<|im_start|>tool\n<|im_end|>\n"
            "<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n<think></think>");
}

TEST(Messages, ReasonsWhereAskedTo) {
  ApiRig rig(kHermesTemplate);
  const auto thinks = [&](const Json& more) {
    return rig.ask(kPath, request(more)).prompt.find("<think></think>") == std::string::npos;
  };
  EXPECT_FALSE(thinks(Json::object()));
  EXPECT_FALSE(thinks({{"thinking", {{"type", "disabled"}}}}));
  EXPECT_TRUE(thinks({{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}}));
  EXPECT_TRUE(thinks({{"thinking", {{"type", "adaptive"}}}}));
  const Reply effort = rig.ask(kPath, request({{"output_config", {{"effort", "low"}}}}));
  EXPECT_NE(effort.prompt.find("[effort low]"), std::string::npos);
}

// The last message of an assistant is the beginning of the answer.
TEST(Messages, GoOnFromABeginning) {
  ApiRig rig(kHermesTemplate);
  Json body = request();
  body["messages"].push_back({{"role", "assistant"}, {"content", "The answer is"}});
  EXPECT_TRUE(rig.ask(kPath, body).prompt.ends_with("<|im_start|>assistant\n<think></think>The answer is"));
}

TEST(Messages, RefusesWhatCannotBe) {
  ApiRig rig(kHermesTemplate);
  const auto refused = [&](const Json& body, const std::string& what) {
    const Reply reply = rig.ask(kPath, body);
    SCOPED_TRACE(body.dump());
    EXPECT_EQ(reply.status, 400);
    if (reply.status != 400) return;
    EXPECT_EQ(reply.body["type"], "error");
    EXPECT_EQ(reply.body["error"]["type"], "invalid_request_error");
    EXPECT_NE(reply.body["error"]["message"].get<std::string>().find(what), std::string::npos) << reply.body;
  };
  Json unlimited = request();
  unlimited.erase("max_tokens");
  refused(unlimited, "max_tokens");
  refused(request({{"max_tokens", 0}}), "max_tokens");
  refused(request({{"messages", Json::array()}}), "messages");
  refused(request({{"messages", parse(R"([{"role": "king", "content": "x"}])")}}), "messages[0].role");
  refused(request({{"messages", parse(R"([{"role": "user", "content": 1}])")}}), "messages[0].content");
  refused(request({{"messages", parse(R"([{"role": "user", "content": [{"type": "image", "source": {}}]}])")}}),
          "messages[0].content[0]");
  refused(request({{"messages", parse(R"([{"role": "user", "content": [{"type": "tool_use", "id": "a"}]}])")}}),
          "does not go with");
  refused(request({{"system", 5}}), "system");
  refused(request({{"tools", parse(R"([{"type": "bash_20250124", "name": "bash"}])")}}), "tools[0]");
  refused(request({{"tools", parse(R"([{"name": "x", "strict": true}])")}}), "not implemented yet");
  refused(request({{"tools", tools()}, {"tool_choice", {{"type", "any"}}}}), "not implemented yet");
  refused(request({{"tools", tools()}, {"tool_choice", {{"type", "tool"}, {"name", "now"}}}}), "not implemented yet");
  refused(request({{"tool_choice", {{"type", "x"}}}}), "tool_choice.type");
  refused(request({{"thinking", {{"type", "much"}}}}), "thinking.type");
  refused(request({{"thinking", {{"type", "enabled"}, {"budget_tokens", 0}}}}), "budget_tokens");
  refused(request({{"output_config", {{"format", {{"type", "json_schema"}}}}}}), "not implemented yet");
  refused(request({{"mcp_servers", Json::array({1})}}), "mcp_servers");
  refused(request({{"stop_sequences", 1}}), "stop_sequences");
  refused(request({{"temperature", 9}}), "temperature");
  rig.model().context = 5;
  refused(request(), "prompt is too long");
}

TEST(Messages, CountsTokens) {
  ApiRig rig(kHermesTemplate);
  const Json body = request({{"tools", tools()}, {"system", "Rules"}});
  const Reply asked = rig.ask(kPath, body);
  const Reply counted = rig.ask("/v1/messages/count_tokens", body);
  EXPECT_EQ(counted.status, 200);
  EXPECT_TRUE(counted.jobs.empty());
  EXPECT_EQ(counted.body, (Json{{"input_tokens", asked.jobs[0].prompt.size()}}));
  // What does not fit is counted all the same.
  rig.model().context = 5;
  EXPECT_EQ(rig.ask("/v1/messages/count_tokens", body).body, counted.body);
}

TEST(Messages, TheGrammarFindsFaults) {
  ApiRig rig(kHermesTemplate);
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  const Reply good = streamed(rig, request({{"tools", tools()}}), {.answer = "<think>a</think>b" + call});
  for (size_t i = 0; i < good.events.size(); ++i) {
    const std::string& name = good.events[i].name;
    if (name == "ping" || name == "content_block_delta") continue;
    std::vector<SseEvent> without = good.events;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_NE(fault_of_message_stream(without), "") << i;
    std::vector<SseEvent> doubled = good.events;
    doubled.insert(doubled.begin() + static_cast<ptrdiff_t>(i), good.events[i]);
    EXPECT_NE(fault_of_message_stream(doubled), "") << i;
  }
}

}  // namespace
}  // namespace strata::server
