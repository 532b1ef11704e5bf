// Goal: whatever a model writes and wherever it is cut, in every API the stream keeps its grammar and adds up to the
// whole reply. Method: answers at random of what models write, right and wrong; every byte is a token.
#include <gtest/gtest.h>

#include "base/random.h"
#include "server/api/put_together.h"
#include "server/api/sse_grammar.h"

namespace strata::server {
namespace {

using engine::Finish;

// Of what answers are made.
constexpr std::string_view kPieces[] = {
    "<think>", "</think>", "<think>hm</think>", "text ", "\n", "\n\n", "a < b ", "STOP", "ST",
    "caf\xC3\xA9 \xF0\x9F\x98\x80 ", "\xE6\x97\xA5\xE6\x9C\xAC", "\xF0\x9F", "\xFF", "\xC3",
    "<tool_call>{\"name\": \"now\"}</tool_call>",
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\xE6\x9D\xB1\"}}\n</tool_call>",
    "<tool_call>{\"name\": \"now\", \"arguments\": {\"x\": [1, \"</think>\"]}}",
    "<tool_call>{\"name\": \"get_weather\", \"argum", "<tool_call>{\"name\": 5}</tool_call>", "<tool_call>",
    "</tool_call>",
    "<tool_call>{\"name\": \"now\", \"arguments\": {\"x\": \"\xFF\"}}</tool_call>", "<|im_end", "{\"name\"", "</th"};

struct Case {
  Script script;
  bool tools, one_call;
  std::optional<int64_t> limit;
  bool stops;
  int64_t n;  // answers, where the API has them
};

Case random_case(Random& random) {
  Case made{.script = {}, .tools = random.below(4) > 0, .one_call = random.below(4) == 0, .limit = {},
            .stops = random.below(3) == 0, .n = 1 + static_cast<int64_t>(random.below(8) == 0)};
  for (uint64_t i = random.below(9); i > 0; --i) made.script.answer += kPieces[random.below(std::size(kPieces))];
  const Finish ends[] = {Finish::kEndOfText, Finish::kEndOfText, Finish::kContextFull, Finish::kRepetition};
  made.script.end = ends[random.below(4)];
  if (random.below(3) == 0) made.limit = 1 + static_cast<int64_t>(random.below(80));
  return made;
}

Json functions() {
  return parse(R"([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}}}}}, {"type": "function", "function": {"name": "now"}}])");
}

// Asks for it whole and streamed.
struct Both {
  Reply whole, stream;
};
Both ask_both(ApiRig& rig, const char* path, Json body, const Script& script) {
  Both both{.whole = rig.ask(path, body, script), .stream = {}};
  body["stream"] = true;
  both.stream = rig.ask(path, body, script);
  EXPECT_EQ(both.whole.status, 200) << both.whole.body;
  EXPECT_TRUE(both.stream.ended);
  return both;
}

Both ask_chat(ApiRig& rig, const Case& given) {
  Json body = {{"messages", parse(R"([{"role": "user", "content": "Hi"}])")}, {"n", given.n}, {"logprobs", true}};
  if (given.tools) body["tools"] = functions();
  if (given.one_call) body["parallel_tool_calls"] = false;
  if (given.limit) body["max_tokens"] = *given.limit;
  if (given.stops) body["stop"] = "STOP";
  return ask_both(rig, "/v1/chat/completions", body, given.script);
}

// The log-probabilities of a choice, from all chunks.
Json streamed_logprobs(const Reply& reply, int64_t index) {
  Json tokens = Json::array();
  for (const Json& chunk : reply.data()) {
    for (const Json& choice : chunk["choices"]) {
      if (choice["index"] != index || choice["logprobs"].is_null()) continue;
      for (const Json& token : choice["logprobs"]["content"]) tokens.push_back(token);
    }
  }
  return tokens;
}

// K11, P01, P04, F01, F02, K04, K05, K07.
TEST(AnyAnswer, OfAChat) {
  ApiRig rig(kHermesTemplate);
  Random random(1);
  int n_calls = 0, n_cut = 0;
  for (int i = 0; i < 400; ++i) {
    const Case given = random_case(random);
    SCOPED_TRACE(Json(given.script.answer).dump(-1, ' ', true, Json::error_handler_t::replace));
    const Both both = ask_chat(rig, given);
    ASSERT_EQ(fault_of_chunks(both.stream.events, "chat.completion.chunk", false), "");
    for (int64_t k = 0; k < given.n; ++k) {
      const Json& choice = both.whole.body["choices"][static_cast<size_t>(k)];
      const Json message = whole_message(choice);
      ASSERT_EQ(put_together(both.stream, static_cast<int>(k)), message);
      ASSERT_EQ(streamed_logprobs(both.stream, k), choice["logprobs"]["content"]);
      const bool cut = message["finish"] == "length";
      const auto calls = message.value("tool_calls", Json::array());
      n_calls += static_cast<int>(calls.size());
      n_cut += cut;
      ASSERT_TRUE(given.tools || calls.empty());
      ASSERT_TRUE(!given.one_call || calls.size() < 2 || cut || !Json::accept(calls[0]["text"].get<std::string>()));
      if (!cut) {
        ASSERT_EQ(message["finish"] == "tool_calls", !calls.empty());
      }
    }
  }
  EXPECT_GT(n_calls, 100);  // the answers are what they are for
  EXPECT_GT(n_cut, 50);
}

// P07, P08, F01, F02, K04, K05, K07.
TEST(AnyAnswer, OfAMessage) {
  ApiRig rig(kHermesTemplate);
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    const Case given = random_case(random);
    SCOPED_TRACE(Json(given.script.answer).dump(-1, ' ', true, Json::error_handler_t::replace));
    Json body = {{"messages", parse(R"([{"role": "user", "content": "Hi"}])")},
                 {"max_tokens", given.limit.value_or(10'000)}};
    if (given.tools) body["tools"] = parse(R"([{"name": "get_weather"}, {"name": "now"}])");
    if (given.one_call) body["tool_choice"] = {{"type", "auto"}, {"disable_parallel_tool_use", true}};
    if (given.stops) body["stop_sequences"] = Json::array({"STOP"});
    const Both both = ask_both(rig, "/v1/messages", body, given.script);
    ASSERT_EQ(fault_of_message_stream(both.stream.events), "");
    ASSERT_EQ(put_blocks_together(both.stream), both.whole.body["content"]);
    const Json delta = both.stream.data()[both.stream.events.size() - 2];
    ASSERT_EQ(delta["delta"]["stop_reason"], both.whole.body["stop_reason"]);
    ASSERT_EQ(delta["delta"]["stop_sequence"], both.whole.body["stop_sequence"]);
    ASSERT_EQ(delta["usage"], both.whole.body["usage"]);
  }
}

// P14, F01, F02, K04, K05, K07.
TEST(AnyAnswer, OfAResponse) {
  ApiRig rig(kHermesTemplate);
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const Case given = random_case(random);
    SCOPED_TRACE(Json(given.script.answer).dump(-1, ' ', true, Json::error_handler_t::replace));
    Json body = {{"input", "Hi"}, {"top_logprobs", 1}, {"parallel_tool_calls", !given.one_call}};
    if (given.tools) {
      body["tools"] = parse(R"([{"type": "function", "name": "get_weather"}, {"type": "function", "name": "now"}])");
    }
    if (given.limit) body["max_output_tokens"] = *given.limit;
    const Both both = ask_both(rig, "/v1/responses", body, given.script);
    ASSERT_EQ(fault_of_response_stream(both.stream.events), "");
    ASSERT_EQ(both.stream.data().back()["response"], both.whole.body);
  }
}

// P01, P04, F01, F02.
TEST(AnyAnswer, OfACompletion) {
  ApiRig rig(kHermesTemplate);
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    const Case given = random_case(random);
    SCOPED_TRACE(Json(given.script.answer).dump(-1, ' ', true, Json::error_handler_t::replace));
    Json body = {{"prompt", "Hi"}, {"n", given.n}, {"logprobs", 2}};
    if (given.limit) body["max_tokens"] = *given.limit;
    if (given.stops) body["stop"] = "STOP";
    const Both both = ask_both(rig, "/v1/completions", body, given.script);
    ASSERT_EQ(fault_of_chunks(both.stream.events, "text_completion", false), "");
    for (int64_t k = 0; k < given.n; ++k) {
      std::string text;
      Json tokens = Json::array(), offsets = Json::array();
      for (const Json& chunk : both.stream.data()) {
        for (const Json& choice : chunk["choices"]) {
          if (choice["index"] != k) continue;
          text += choice["text"].get<std::string>();
          for (const Json& token : choice["logprobs"]["tokens"]) tokens.push_back(token);
          for (const Json& offset : choice["logprobs"]["text_offset"]) offsets.push_back(offset);
        }
      }
      const Json& choice = both.whole.body["choices"][static_cast<size_t>(k)];
      ASSERT_EQ(text, choice["text"]);
      ASSERT_EQ(tokens, choice["logprobs"]["tokens"]);
      ASSERT_EQ(offsets, choice["logprobs"]["text_offset"]);
    }
  }
}

}  // namespace
}  // namespace strata::server
