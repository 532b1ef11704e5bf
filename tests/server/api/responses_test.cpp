// Goal: responses as clients of OpenAI's newer API send and expect them, without any memory of the server's;
// completions and models too.
#include <gtest/gtest.h>

#include "server/api/sse_grammar.h"

namespace strata::server {
namespace {

using engine::Finish;

constexpr const char* kPath = "/v1/responses";

Json request(Json more = Json::object()) {
  Json body = {{"model", "any"}, {"input", "Hi"}};
  body.update(more);
  return body;
}

Json tools() {
  return parse(R"([{"type": "function", "name": "shell", "description": "Runs", "strict": false, "parameters":
    {"type": "object", "properties": {"command": {"type": "array"}}}}, {"type": "web_search"}])");
}

Reply streamed(ApiRig& rig, Json body, const Script& script) {
  body["stream"] = true;
  const Reply reply = rig.ask(kPath, body, script);
  EXPECT_EQ(fault_of_response_stream(reply.events), "");
  EXPECT_TRUE(reply.ended);
  return reply;
}

constexpr const char* kCall = "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": [\"ls\"]}}</tool_call>";

TEST(Responses, AnswersWhole) {
  ApiRig rig(kHermesTemplate);
  const Reply reply = rig.ask(kPath, request({{"instructions", "Rules"}, {"metadata", {{"a", "b"}}}}),
                              {.answer = "Hello", .kept_tokens = 2});
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.prompt,
            "<|im_start|>system\nRules<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(reply.body["object"], "response");
  EXPECT_EQ(reply.body["status"], "completed");
  EXPECT_EQ(reply.body["store"], false);
  EXPECT_EQ(reply.body["metadata"]["a"], "b");
  ASSERT_EQ(reply.body["output"].size(), 1u);
  EXPECT_EQ(reply.body["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(reply.body["usage"]["output_tokens"], 5);
  EXPECT_EQ(reply.body["usage"]["input_tokens_details"]["cached_tokens"], 2);
}

// P14: the items of the stream are those of the final object, ids and text; cut ones are incomplete.
TEST(Responses, StreamsByTheGrammar) {
  ApiRig rig(kHermesTemplate);
  const Json body = request({{"tools", tools()}});
  const Script script{.answer = std::string("<think>hm</think>Wait.") + kCall + "\n" + kCall};
  const Reply stream = streamed(rig, body, script);
  const Reply whole = rig.ask(kPath, body, script);
  EXPECT_EQ(stream.data().back()["response"], whole.body);
  const Json& output = whole.body["output"];
  ASSERT_EQ(output.size(), 4u) << whole.body;
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0]["text"], "hm");
  EXPECT_EQ(output[1]["type"], "message");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["arguments"], "{\"command\": [\"ls\"]}");
  EXPECT_NE(output[2]["call_id"], output[3]["call_id"]);
  EXPECT_EQ(whole.body["tools"].size(), 1u) << "what the server would have to run is left out";

  for (int limit = 1; limit < 90; limit += 4) {
    const Json cut = request({{"tools", tools()}, {"max_output_tokens", limit}});
    const Reply part = streamed(rig, cut, script);
    EXPECT_EQ(part.data().back()["response"], rig.ask(kPath, cut, script).body) << limit;
    EXPECT_EQ(part.events.back().name, "response.incomplete");
    EXPECT_EQ(part.data().back()["response"]["incomplete_details"]["reason"], "max_output_tokens");
    const Json& items = part.data().back()["response"]["output"];
    if (!items.empty()) {
      EXPECT_EQ(items.back()["status"], "incomplete") << limit;
    }
  }
}

TEST(Responses, GivesLogprobs) {
  ApiRig rig(kHermesTemplate);
  const Json body = request({{"top_logprobs", 3}, {"include", Json::array({"message.output_text.logprobs"})}});
  const Reply whole = rig.ask(kPath, body, {.answer = "abc"});
  EXPECT_EQ(whole.body["output"][0]["content"][0]["logprobs"].size(), 3u);
  EXPECT_EQ(streamed(rig, body, {.answer = "abc"}).data().back()["response"], whole.body);
}

TEST(Responses, SaysWhatFailed) {
  ApiRig rig(kHermesTemplate);
  const Script script{.answer = "abc", .end = Finish::kFailed, .error = Error{ErrorCode::kInternal, "gpu at /x"}};
  const Reply stream = streamed(rig, request(), script);
  EXPECT_EQ(stream.events.back().name, "response.failed");
  EXPECT_EQ(stream.data().back()["response"]["status"], "failed");
  EXPECT_EQ(stream.events.back().data.find("/x"), std::string::npos);
  EXPECT_EQ(rig.ask(kPath, request(), script).status, 500);
}

// As coding agents send their turns.
TEST(Responses, ReadsWholeHistories) {
  ApiRig rig(kHermesTemplate);
  const Json body = parse(R"({"model": "m", "instructions": "You are an agent.", "store": false, "stream": false,
    "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
    "reasoning": {"effort": "medium", "summary": "auto"},
    "text": {"verbosity": "low"}, "tool_choice": "auto", "parallel_tool_calls": false, "input": [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}],
      "encrypted_content": null},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ok."}]},
    {"type": "function_call", "name": "shell", "arguments": "{\"command\": [\"ls\"]}", "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    {"role": "user", "content": "Thanks"}]})");
  const Reply reply = rig.ask(kPath, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.prompt,
            "<|im_start|>system\nYou are an agent.\n\nSandbox<|im_end|>\n"
            "<|im_start|>user\nList<|im_end|>\n<|im_start|>assistant\n<think>hm</think>Ok.<tool_call>{\"name\": "
            "\"shell\", \"arguments\": {\"command\": [\"ls\"]}}</tool_call><|im_end|>\n<|im_start|>tool\na.txt"
            "<|im_end|>\n"
            "<|im_start|>user\nThanks<|im_end|>\n[effort medium]<|im_start|>assistant\n");
}

TEST(Responses, RefusesWhatCannotBe) {
  ApiRig rig(kHermesTemplate);
  const auto refused = [&](const Json& body, const std::string& param) {
    const Reply reply = rig.ask(kPath, body);
    SCOPED_TRACE(body.dump());
    EXPECT_EQ(reply.status, 400);
    if (reply.status == 400) {
      EXPECT_EQ(reply.body["error"]["param"], Json(param)) << reply.body;
    }
  };
  refused(request({{"store", true}}), "store");
  refused(request({{"previous_response_id", "resp_1"}}), "previous_response_id");
  refused(request({{"conversation", "c"}}), "conversation");
  refused(request({{"background", true}}), "background");
  refused(request({{"truncation", "auto"}}), "truncation");
  refused(request({{"input", 5}}), "input");
  refused(request({{"input", Json::array()}}), "input");
  refused(request({{"input", parse(R"([{"type": "item_reference", "id": "x"}])")}}), "input[0]");
  refused(request({{"input", parse(R"([{"role": "king", "content": "x"}])")}}), "input[0].role");
  refused(request({{"input", parse(R"([{"role": "user", "content": [{"type": "input_image"}]}])")}}),
          "input[0].content[0]");
  refused(request({{"input", parse(R"([{"type": "function_call", "name": "x"}])")}}), "input[0].call_id");
  refused(request({{"tools", parse(R"([{"type": "local_shell"}])")}}), "tools[0]");
  refused(request({{"tools", parse(R"([{"type": "function", "name": "f", "strict": true}])")}}), "tools[0].strict");
  refused(request({{"tool_choice", "required"}}), "tool_choice");
  refused(request({{"text", {{"format", {{"type", "json_schema"}}}}}}), "text.format");
  refused(request({{"reasoning", {{"effort", "huge"}}}}), "reasoning.effort");
  refused(request({{"max_output_tokens", 0}}), "max_output_tokens");
  refused(request({{"temperature", 3}}), "temperature");
  rig.model().context = 5;
  refused(request(), "input");
}

TEST(Responses, TheGrammarFindsFaults) {
  ApiRig rig(kHermesTemplate);
  const Reply good = streamed(rig, request({{"tools", tools()}}), {.answer = std::string("a") + kCall});
  for (size_t i = 0; i < good.events.size(); ++i) {
    std::vector<SseEvent> without = good.events;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_NE(fault_of_response_stream(without), "") << i;
  }
}

TEST(Completions, AnswerPromptsOfAllForms) {
  ApiRig rig(kHermesTemplate);
  const auto ask = [&](const Json& more) {
    Json body = {{"model", "m"}};
    body.update(more);
    return rig.ask("/v1/completions", body, {.answer = "abc"});
  };
  const Reply one = ask({{"prompt", "Once<|im_end|>"}});
  EXPECT_EQ(one.prompt, "Once<|im_end|>");
  EXPECT_EQ(one.jobs[0].prompt.size(), 5u) << "marks are marks here";
  EXPECT_EQ(one.body["object"], "text_completion");
  EXPECT_EQ(one.body["choices"][0]["text"], "abc");
  EXPECT_EQ(one.body["choices"][0]["finish_reason"], "stop");
  const Reply two = ask({{"prompt", Json::array({"ab", "cde"})}, {"n", 2}});
  EXPECT_EQ(two.body["choices"].size(), 4u);
  EXPECT_EQ(two.body["usage"]["prompt_tokens"], 5) << "each prompt once";
  EXPECT_EQ(two.body["usage"]["completion_tokens"], 12);
  EXPECT_EQ(ask({{"prompt", Json::array({65, 66})}}).prompt, "AB");
  EXPECT_EQ(ask({{"prompt", parse("[[65], [66, 67]]")}}).jobs.size(), 2u);
  const Reply with_logprobs = ask({{"prompt", "x"}, {"logprobs", 2}});
  EXPECT_EQ(with_logprobs.body["choices"][0]["logprobs"]["text_offset"], Json::array({0, 1, 2}));
  const Reply stream = ask({{"prompt", "x"}, {"stream", true}, {"n", 2}, {"logprobs", 1},
                            {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(fault_of_chunks(stream.events, "text_completion", true), "");
  for (const Json& wrong : {Json(nullptr), Json(5), Json(""), Json::array(), Json::array({1.5}), Json::array({-1}),
                            Json::array({65, 999999}), Json::array({"a", 5}), Json::array({Json::array()})}) {
    EXPECT_EQ(ask({{"prompt", wrong}}).status, 400) << wrong;
  }
  EXPECT_EQ(ask({{"prompt", "x"}, {"echo", true}}).status, 400);
  EXPECT_EQ(ask({{"prompt", "x"}, {"best_of", 2}}).status, 400);
  EXPECT_EQ(ask({{"prompt", "x"}, {"suffix", "y"}}).status, 400);
  EXPECT_EQ(ask({{"prompt", Json::array({"a", "b"})}, {"n", 100}}).status, 400);
}

TEST(Models, AreListedAndFound) {
  ApiRig rig(kHermesTemplate);
  const Reply list = rig.ask_text("/v1/models", "", {}, "GET");
  EXPECT_EQ(list.body["data"][0]["id"], "tiny");
  EXPECT_EQ(list.body["data"][0]["created_at"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(rig.ask_text("/v1/models/{id}", "", {}, "GET", "tiny").body, list.body["data"][0]);
  const Reply unknown = rig.ask_text("/v1/models/{id}", "", {}, "GET", "org/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body["error"]["code"], "model_not_found");
}

TEST(Embeddings, AreRefused) {
  ApiRig rig(kHermesTemplate);
  EXPECT_EQ(rig.ask("/v1/embeddings", {{"input", "x"}}).status, 400);
}

}  // namespace
}  // namespace strata::server
