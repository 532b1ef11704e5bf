// Goal: what holds for requests and answers of all APIs alike holds in each of them.
#include <gtest/gtest.h>

#include "server/api/put_together.h"
#include "server/api/sse_grammar.h"
#include "text/sampling/dry_breakers.h"

namespace strata::server {
namespace {

using engine::Finish;

struct Api {
  const char* path;
  Json body;               // the least that it takes
  std::string object;      // of its chunks; "" for events with names
  const char* limit_name;  // of an answer's tokens
};

std::vector<Api> apis() {
  const Json user = parse(R"([{"role": "user", "content": "Hi"}])");
  return {{"/v1/chat/completions", {{"messages", user}}, "chat.completion.chunk", "max_tokens"},
          {"/v1/completions", {{"prompt", "Hi"}}, "text_completion", "max_tokens"},
          {"/v1/responses", {{"input", "Hi"}}, "", "max_output_tokens"},
          {"/v1/messages", {{"messages", user}, {"max_tokens", 100}}, "", "max_tokens"}};
}

Json with(const Json& body, const char* key, Json value) {
  Json more = body;
  more[key] = std::move(value);
  return more;
}

std::string fault_of(const Api& api, const Reply& reply) {
  if (!api.object.empty()) return fault_of_chunks(reply.events, api.object, false);
  return api.body.contains("input") ? fault_of_response_stream(reply.events) : fault_of_message_stream(reply.events);
}

std::string message_of(const Reply& reply) { return reply.body.value("error", Json::object()).value("message", ""); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// P01, P02: an answer that fails, or whose reply can't be made any further, has an end in every API, with the error in
// it.
TEST(EveryApi, EndsStreamsThatFail) {
  ApiRig rig(kHermesTemplate);
  const Error secret{ErrorCode::kIo, "cannot read /secret/model.gguf"};
  for (const Api& api : apis()) {
    SCOPED_TRACE(api.path);
    for (const char* answer : {"", "abc", "<think>a", "<think>a</think>b"}) {
      const Script failing{.answer = answer, .end = Finish::kFailed, .error = secret};
      const Script breaking{.answer = answer, .breaks = true};
      for (const Script& script : {failing, breaking}) {
        const Reply stream = rig.ask(api.path, with(api.body, "stream", true), script);
        EXPECT_EQ(fault_of(api, stream), "");
        EXPECT_TRUE(stream.ended);
        const size_t last = stream.events.size() - (api.object.empty() ? 1 : 2);  // [DONE]
        EXPECT_TRUE(has(stream.events[last].data, "\"error\"")) << stream.events[last].data;
        EXPECT_FALSE(has(stream.events[last].data, "secret"));
        const Reply whole = rig.ask(api.path, api.body, script);
        EXPECT_EQ(whole.status, 500);
        EXPECT_FALSE(has(whole.body.dump(), "secret"));  // W07
      }
    }
  }
}

// X01, X02, X08: a context is never shifted and a prompt never cut, and no other power that is not there is passed over
// in silence; what switches it off is taken.
TEST(EveryApi, RefusesPowersThatAreNotThere) {
  ApiRig rig(kHermesTemplate);
  const struct { const char* key; Json on, off; } fields[] = {
      {"n_discard", -1, 0},
      {"n_discard", 2147483647, nullptr},
      {"n_keep", 2147483647, 0},
      {"n_keep", -1, nullptr},
      {"context_shift", true, false},
      {"truncate_prompt_tokens", 10, nullptr},
      {"grammar", "root ::= x", ""},
      {"guided_choice", Json::array({"a"}), Json::array()},
      {"structured_outputs", {{"json", Json::object()}}, Json::object()},
      {"n_predict", 5, nullptr},
      {"min_tokens", 5, 0},
      {"stop_token_ids", Json::array({1}), Json::array()},
      {"bad_words", Json::array({"a"}), Json::array()},
      {"use_beam_search", true, false},
      {"chat_template", "{{ messages }}", nullptr},
      {"continue_final_message", true, false},
      {"lora", Json::array({Json::object()}), Json::array()},
      {"speculative.n_max", 4, 0},  // A04: nothing is drafted
  };
  for (const Api& api : apis()) {
    for (const auto& [key, on, off] : fields) {
      SCOPED_TRACE(std::string(api.path) + " " + key);
      const Reply refused = rig.ask(api.path, with(api.body, key, on));
      EXPECT_EQ(refused.status, 400);
      EXPECT_TRUE(message_of(refused).starts_with(std::string(key) + ": ")) << refused.body;
      EXPECT_FALSE(has(message_of(refused), std::string(key) + ": " + key)) << "named once: " << refused.body;
      EXPECT_EQ(rig.ask(api.path, with(api.body, key, off)).status, 200);
    }
  }
}

// X10: in the words by which agents know that they have to compact; X11: a limit is never the reason.
TEST(EveryApi, SaysThatAPromptDoesNotFit) {
  ApiRig rig(kHermesTemplate);
  for (const Api& api : apis()) {
    SCOPED_TRACE(api.path);
    rig.model().context = 2048;
    const size_t n = rig.ask(api.path, api.body).jobs[0].prompt.size();
    rig.model().context = static_cast<int64_t>(n);
    const Reply fits = rig.ask(api.path, with(api.body, api.limit_name, 1'000'000));
    EXPECT_EQ(fits.status, 200);
    EXPECT_EQ(fits.jobs[0].prompt.size(), n);  // all of it
    EXPECT_EQ(fits.jobs[0].params.max_tokens, 1);
    rig.model().context = static_cast<int64_t>(n) + 10;
    EXPECT_EQ(rig.ask(api.path, with(api.body, api.limit_name, 50)).jobs[0].params.max_tokens, 10);
    EXPECT_EQ(rig.ask(api.path, with(api.body, api.limit_name, 10)).jobs[0].params.max_tokens, 10);
    EXPECT_EQ(rig.ask(api.path, with(api.body, api.limit_name, 9)).jobs[0].params.max_tokens, 9);
    rig.model().context = static_cast<int64_t>(n) - 1;
    for (const Json& body : {api.body, with(api.body, "stream", true), with(api.body, api.limit_name, 1)}) {
      const Reply refused = rig.ask(api.path, body);
      EXPECT_EQ(refused.status, 400);
      EXPECT_FALSE(refused.streamed);
      EXPECT_TRUE(has(message_of(refused), "maximum context length is " + std::to_string(n - 1))) << refused.body;
      EXPECT_TRUE(has(message_of(refused), "prompt is too long: " + std::to_string(n) + " tokens")) << refused.body;
      if (!refused.body.contains("type")) {
        EXPECT_EQ(refused.body["error"]["code"], "context_length_exceeded");
      }
    }
  }
}

// W05: images, sounds and files, named by address or sent along: refused in every form, and so never fetched.
TEST(EveryApi, FetchesNothing) {
  ApiRig rig(kHermesTemplate);
  const auto ask = [&](const char* path, const char* part) {
    const Json turn = Json::array({{{"role", "user"}, {"content", Json::array({parse(part)})}}});
    Json body = {{"max_tokens", 5}, {"messages", turn}};
    if (path == std::string("/v1/responses")) body = {{"input", turn}};
    const Reply reply = rig.ask(path, body);
    EXPECT_EQ(reply.status, 400) << path << " " << part;
    const char* place = path == std::string("/v1/responses") ? "input[0].content[0]" : "messages[0].content[0]";
    EXPECT_TRUE(has(message_of(reply), place)) << reply.body;
  };
  for (const char* url : {"http://127.0.0.1:1/x.png", "http://169.254.169.254/", "http://1@2/", "http://2130706433/",
                          "http://[::ffff:127.0.0.1]/", "file:///etc/passwd", "data:image/png;base64,AAAA"}) {
    const std::string quoted = Json(url).dump();
    ask("/v1/chat/completions", ("{\"type\": \"image_url\", \"image_url\": {\"url\": " + quoted + "}}").c_str());
    ask("/v1/responses", ("{\"type\": \"input_image\", \"image_url\": " + quoted + "}").c_str());
    ask("/v1/responses", ("{\"type\": \"input_file\", \"file_url\": " + quoted + "}").c_str());
    for (const char* type : {"image", "document"}) {
      ask("/v1/messages", ("{\"type\": \"" + std::string(type) + "\", \"source\": {\"type\": \"url\", \"url\": " +
                           quoted + "}}").c_str());
    }
    ask("/v1/messages", ("{\"type\": \"tool_result\", \"tool_use_id\": \"a\", \"content\": [{\"type\": \"image\", "
                         "\"source\": {\"type\": \"url\", \"url\": " + quoted + "}}]}").c_str());
  }
  for (const char* part : {R"({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})",
                           R"({"type": "file", "file": {"file_id": "x"}})", R"({"type": "video_url"})"}) {
    ask("/v1/chat/completions", part);
  }
}

// K01: arguments in a history that are no JSON object, in each API that has them as text.
TEST(EveryApi, TakesOrNamesBrokenArguments) {
  ApiRig rig(kHermesTemplate);
  for (const std::string arguments : {"{", "", "[]", "no", "{\"a\": 1}}", "\"x\"", "{\"a\": \"\\ud800\"}"}) {
    const Json call = {{"id", "a"}, {"type", "function"}, {"function", {{"name", "now"}, {"arguments", arguments}}}};
    const Json chat = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}},
                                                 {{"role", "assistant"}, {"tool_calls", Json::array({call})}}})}};
    const Json item = {{"type", "function_call"}, {"call_id", "a"}, {"name", "now"}, {"arguments", arguments}};
    const Json items = {{"input", Json::array({{{"role", "user"}, {"content", "Hi"}}, item})}};
    for (const Reply& reply : {rig.ask("/v1/chat/completions", chat), rig.ask("/v1/responses", items)}) {
      const bool named = reply.status == 400 && (has(message_of(reply), "messages[1]") ||
                                                 has(message_of(reply), "input[1]"));
      EXPECT_TRUE(reply.status == 200 || named) << arguments << " " << reply.body;
    }
  }
  for (const Json& input : {Json("{"), Json(5), Json::array()}) {
    const Json use = {{"type", "tool_use"}, {"id", "a"}, {"name", "now"}, {"input", input}};
    const Json body = {{"max_tokens", 5},
                       {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}},
                                                 {{"role", "assistant"}, {"content", Json::array({use})}}})}};
    const Reply reply = rig.ask("/v1/messages", body);
    EXPECT_EQ(reply.status, 400);
    EXPECT_TRUE(has(message_of(reply), "messages[1].content[0].input")) << reply.body;
  }
}

// F02, F04: bodies whose bytes or escapes are no characters are refused; all others come through, in any script.
TEST(EveryApi, TakesCharactersOnly) {
  ApiRig rig(kHermesTemplate);
  const std::string texts[] = {"\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80",
                               std::string("a\0b", 3), "\xEF\xBF\xBE", "\xF4\x8F\xBF\xBF"};
  for (const Api& api : apis()) {
    const std::string body = api.body.dump();
    const size_t at = body.find("Hi");
    const auto sent = [&](const std::string& text) {
      return rig.ask_text(api.path, body.substr(0, at) + text + body.substr(at + 2));
    };
    for (const std::string& text : texts) {
      const std::string escaped = Json(text).dump(-1, ' ', true), plain = Json(text).dump();
      for (const std::string& written : {escaped, plain}) {
        const Reply reply = sent(written.substr(1, written.size() - 2));
        EXPECT_EQ(reply.status, 200) << api.path << " " << written;
        EXPECT_TRUE(has(reply.prompt, text)) << api.path << " " << written;
      }
    }
    for (const char* wrong : {"\xFF", "\xC3", "\xED\xA0\x80", "\xC0\xAF", "\xF5\x80\x80\x80", "\\ud800",
                              "\\udc00\\ud800", "\\ud83dx", "\\u12", "\\x41", "\n", "\x01"}) {
      const Reply reply = sent(wrong);
      EXPECT_EQ(reply.status, 400) << api.path << " " << wrong;
      EXPECT_FALSE(message_of(reply).empty());
    }
  }
}

// What the sampler has, requests can ask for, under the names that GGUF servers share.
TEST(EveryApi, ReadsAllOfTheSampler) {
  ApiRig rig(kHermesTemplate);
  const Json more = parse(R"({"top_n_sigma": 1.5, "xtc_probability": 0.25, "xtc_threshold": 0.125, "min_keep": 3,
    "dynatemp_range": 0.5, "dynatemp_exponent": 2, "repeat_last_n": -1, "dry_multiplier": 0.75, "dry_base": 2,
    "dry_allowed_length": 4, "dry_penalty_last_n": 9, "dry_sequence_breakers": ["x", "yz"], "mirostat": 2,
    "mirostat_tau": 4, "mirostat_eta": 0.25, "adaptive_decay": 0.5, "samplers": ["top_k", "temperature"]})");
  for (const Api& api : apis()) {
    SCOPED_TRACE(api.path);
    Json body = api.body;
    body.update(more);
    const Reply reply = rig.ask(api.path, body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const text::SamplerParams& s = reply.jobs[0].params.sampling;
    EXPECT_EQ(std::vector<float>({s.top_n_sigma, s.xtc_probability, s.xtc_threshold, s.dynatemp_range,
                                  s.dynatemp_exponent, s.dry_multiplier, s.dry_base, s.mirostat_tau, s.mirostat_eta,
                                  s.adaptive_decay}),
              std::vector<float>({1.5f, 0.25f, 0.125f, 0.5f, 2, 0.75f, 2, 4, 0.25f, 0.5f}));
    EXPECT_EQ(std::vector<int32_t>({s.min_keep, s.repeat_last_n, s.dry_allowed_length, s.dry_penalty_last_n,
                                    s.mirostat}),
              std::vector<int32_t>({3, -1, 4, 9, 2}));
    EXPECT_EQ(s.order, (std::vector<text::StageKind>{text::StageKind::kTopK, text::StageKind::kTemperature}));
    ASSERT_NE(s.dry_breakers, nullptr);
    EXPECT_TRUE(s.dry_breakers->is_single('x'));
    EXPECT_FALSE(s.dry_breakers->is_single(':'));
    body.erase("dry_sequence_breakers");
    EXPECT_TRUE(rig.ask(api.path, body).jobs[0].params.sampling.dry_breakers->is_single(':'));
    EXPECT_EQ(rig.ask(api.path, with(api.body, "samplers", "kt")).jobs[0].params.sampling.order, s.order);
    for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{
             {"mirostat", 3}, {"mirostat", -1}, {"mirostat_tau", "x"}, {"xtc_probability", 1.5}, {"min_keep", -1},
             {"repeat_last_n", -2}, {"dry_base", -1}, {"samplers", "nonsense"}, {"samplers", 5},
             {"samplers", Json::array({5})}, {"samplers", Json::array({"top_k", "top_k"})},
             {"dry_sequence_breakers", "x"}, {"dry_sequence_breakers", Json::array({5})}, {"adaptive_decay", 1},
             {"min_keep", 1e10}, {"dry_penalty_last_n", 0.5}}) {
      const Reply refused = rig.ask(api.path, with(body, key, value));
      EXPECT_EQ(refused.status, 400) << key << " " << value;
      EXPECT_TRUE(has(message_of(refused), key)) << refused.body;
    }
    const Reply empty = rig.ask(api.path, with(body, "dry_sequence_breakers", Json::array({""})));
    EXPECT_EQ(empty.status, 400);
  }
}

// R05 as documented: a closing tag in front of an answer whose reasoning nobody opened is dropped, one within it is
// text; K02: a call in reasoning without an end is a call.
TEST(EveryApi, TellsReasoningApartAlike) {
  ApiRig rig(kHermesTemplate);
  // The answer's parts: reasoning, text, calls.
  const auto parts = [&](const Api& api, const Script& script) {
    Json body = api.body;
    if (api.path == std::string("/v1/messages")) {
      body["tools"] = parse(R"([{"name": "now"}])");
      body["thinking"] = {{"type", "adaptive"}};
    } else if (body.contains("input")) {
      body["tools"] = parse(R"([{"type": "function", "name": "now"}])");
    } else {
      body["tools"] = parse(R"([{"type": "function", "function": {"name": "now"}}])");
    }
    const Json reply = rig.ask(api.path, body, script).body;
    std::string said[3];
    if (reply.contains("choices")) {
      const Json& message = reply["choices"][0]["message"];
      said[0] = message.value("reasoning_content", "");
      said[1] = message["content"].is_null() ? "" : message["content"].get<std::string>();
      for (const Json& call : message.value("tool_calls", Json::array())) {
        said[2] += call["function"]["name"].get<std::string>();
      }
    }
    for (const Json& block : reply.value("content", Json::array())) {
      said[0] += block.value("thinking", "");
      said[1] += block.value("text", "");
      said[2] += block.value("name", "");
    }
    for (const Json& item : reply.value("output", Json::array())) {
      for (const Json& part : item.value("content", Json::array())) {
        said[item["type"] == "reasoning" ? 0 : 1] += part["text"].get<std::string>();
      }
      said[2] += item.value("name", "");
    }
    return said[0] + "|" + said[1] + "|" + said[2];
  };
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  for (const Api& api : apis()) {
    if (api.path == std::string("/v1/completions")) continue;  // its text is as the model wrote it
    SCOPED_TRACE(api.path);
    EXPECT_EQ(parts(api, {.answer = "</think>\n\nHello"}), "|Hello|");
    EXPECT_EQ(parts(api, {.answer = "Say </think> to end it"}), "|Say </think> to end it|");
    EXPECT_EQ(parts(api, {.answer = "<think>so " + call}), "so " + call + "||now");
    EXPECT_EQ(parts(api, {.answer = "<think>so " + call, .end = Finish::kContextFull}), "so " + call + "||");
    // R08: the end of an answer goes through the same parsers, whatever is held back there.
    EXPECT_EQ(parts(api, {.answer = "<think>so</thi"}), "so</thi||");
    EXPECT_EQ(parts(api, {.answer = "so <tool_ca"}), "|so <tool_ca|");
  }
}

// R11 and F02 of the two other APIs with log-probabilities: a stop as the first token, bytes that are no characters.
TEST(EveryApi, GivesLogprobsOfAnyTokens) {
  ApiRig rig(kHermesTemplate);
  const Json text = {{"prompt", "Hi"}, {"logprobs", 10}, {"stop", "\n"}};
  const Json first = rig.ask("/v1/completions", text, {.answer = "\nabc"}).body["choices"][0];
  EXPECT_EQ(first["text"], "");
  EXPECT_EQ(first["logprobs"]["tokens"], Json::array());
  // Two pieces of characters stay two, and offsets count characters.
  const Json bytes = rig.ask("/v1/completions", text, {.answer = "\xC3\xA9x"}).body["choices"][0];
  EXPECT_EQ(bytes["text"], "\xC3\xA9x");
  EXPECT_EQ(bytes["logprobs"]["tokens"], parse(R"(["bytes:\\xc3", "bytes:\\xa9", "x"])"));
  EXPECT_EQ(bytes["logprobs"]["text_offset"], parse("[0, 1, 1]"));
  for (const Json& top : bytes["logprobs"]["top_logprobs"]) EXPECT_EQ(top.size(), 10u) << top;
  const Json items = rig.ask("/v1/responses", {{"input", "Hi"}, {"top_logprobs", 10}}, {.answer = "a\xFF"}).body;
  const Json& logprobs = items["output"][0]["content"][0]["logprobs"];
  ASSERT_EQ(logprobs.size(), 2u);
  EXPECT_EQ(logprobs[1]["bytes"], parse("[255]"));
}

}  // namespace
}  // namespace strata::server
