// Choice of the template, adaptation of conversations, segments and their tokens.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/jinja_render.h"
#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;

// As the family of Qwen3 writes conversations, with what its templates do with reasoning and tools.
constexpr const char* kThinkingTemplate = R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.reasoning_content and loop.last -%}<think>{{ message.reasoning_content }}</think>{%- endif -%}
{{- message.content -}}
{%- for call in message.tool_calls -%}
<tool_call>{{ call.function.name }} {{ call.function.arguments | tojson }}</tool_call>
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined and not enable_thinking -%}<think></think>{%- endif -%}{%- endif -%})";

struct Loaded {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
  Error error;
};

class Model {
 public:
  Model() {
    im_start = files.add("<|im_start|>", TokenType::kControl);
    im_end = files.add("<|im_end|>", TokenType::kControl);
    bos = files.add("<s>", TokenType::kControl);
  }

  Loaded load(const std::optional<std::string>& override_text = std::nullopt) {
    files.more_keys = [this](gguf::Writer& writer) {
      for (const auto& [key, text] : keys) writer.set_string(key, text);
      writer.set_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos));
      writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(im_end));
      writer.set_bool("tokenizer.ggml.add_bos_token", add_bos);
    };
    const auto model = files.open();
    Loaded out;
    auto tokenizer = Tokenizer::load(*model);
    EXPECT_TRUE(tokenizer.ok());
    out.tokenizer = std::move(tokenizer).value();
    auto chat = ChatTemplate::load(*model, *out.tokenizer, override_text);
    if (chat.ok()) {
      out.chat = std::move(chat).value();
    } else {
      out.error = chat.error();
    }
    return out;
  }

  Loaded load_with(const std::string& source) {
    keys["tokenizer.chat_template"] = source;
    return load();
  }

  test::TokenizerModel files;
  std::map<std::string, std::string> keys;
  int32_t im_start, im_end, bos;
  bool add_bos = false;
};

ChatOptions fixed(bool generation = true) {
  ChatOptions options;
  options.add_generation_prompt = generation;
  options.now = jinja::test::fixed_time;
  return options;
}

std::string rendered(const Loaded& loaded, const char* messages, const char* tools = "null",
                     const ChatOptions& options = fixed(false)) {
  const Json tools_json = Json::parse(tools);
  const auto segments = loaded.chat->render(Json::parse(messages), &tools_json, options);
  return segments.ok() ? plain_text(*segments) : "failed: " + segments.error().message;
}

TEST(ChatTemplate, RendersTheModelsTemplate) {
  const Loaded loaded = Model().load_with(kThinkingTemplate);
  ASSERT_NE(loaded.chat, nullptr);
  EXPECT_THAT(loaded.chat->warnings(), IsEmpty());
  EXPECT_EQ(loaded.chat->source(), kThinkingTemplate);
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])", "null", fixed()),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  ChatOptions options = fixed();
  options.enable_thinking = false;
  EXPECT_THAT(rendered(loaded, R"([{"role":"user","content":"Hi"}])", "null", options), HasSubstr("<think></think>"));
}

TEST(ChatTemplate, GetsConstantsAndExtraVariables) {
  const Loaded loaded = Model().load_with("{{ bos_token }}{{ eos_token }}{{ mode }}{{ tools }}{{ documents }}"
                                          "{{ strftime_now('%Y') }}{{ messages[0].content }}");
  const Json extra = {{"mode", "fast"}, {"eos_token", "ignored"}};
  ChatOptions options = fixed();
  options.extra = &extra;
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])", "[]", options), "<s><|im_end|>fastNoneNone2026Hi");
  const Json wrong = {1};
  options.extra = &wrong;
  EXPECT_THAT(rendered(loaded, R"([{"role":"user","content":"Hi"}])", "[]", options), HasSubstr("must be an object"));
}

TEST(ChatTemplate, ToolsHaveATemplateOfTheirOwn) {
  Model model;
  model.keys["tokenizer.chat_template.tool_use"] = "with {{ tools[0].function.name }}{{ messages[0].content }}";
  const Loaded loaded = model.load_with("without {{ messages[0].content }}");
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])"), "without Hi");
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])", "[]"), "without Hi");
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])", R"([{"function":{"name":"f"}}])"), "with fHi");
}

TEST(ChatTemplate, AbilitiesOfAToolTemplateAreItsOwn) {
  Model model;
  model.keys["tokenizer.chat_template.tool_use"] =
      "{{ tools | tojson }}{%- for m in messages -%}{{ m.content }}{%- for c in m.tool_calls -%}"
      "{{ ' ' + c.function.arguments }}{%- endfor -%}{%- endfor -%}";
  const Loaded loaded = model.load_with("{{ messages[0].content }}");
  EXPECT_THAT(loaded.chat->warnings(), IsEmpty());
  EXPECT_EQ(rendered(loaded, R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}])",
                     R"([{"name":"f"}])"),
            R"([{"name": "f"}] {"a": 1})");
}

TEST(ChatTemplate, AToolTemplateThatFailsIsReplaced) {
  Model model;
  model.keys["tokenizer.chat_template.tool_use"] = "{{ tools[5].name }}";
  const Loaded loaded = model.load_with("{{ messages[0].content }}");
  EXPECT_THAT(loaded.chat->warnings(), ElementsAre(HasSubstr("tools go to tokenizer.chat_template instead")));
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])", R"([{"name":"f"}])"), "Hi");
}

TEST(ChatTemplate, WithoutOneChatmlIsUsed) {
  const Loaded loaded = Model().load();
  EXPECT_THAT(loaded.chat->warnings(), ElementsAre("the model has no chat template; using the built-in one 'chatml'"));
  EXPECT_EQ(rendered(loaded, R"([{"role":"system","content":"S"},{"role":"user","content":"Hi"}])", "null", fixed()),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, BuiltinsAreChosenByMarkers) {
  const std::pair<const char*, const char*> families[] = {
      {"<|im_start|>", "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nA<|im_end|>\n"
                       "<|im_start|>assistant\nB<|im_end|>\n<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n"},
      {"[INST] <<SYS>>", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nA [/INST] B <|im_end|><s>[INST] C [/INST]"},
      {"[INST]", "<s>[INST] S\n\nA [/INST] B<|im_end|>[INST] C [/INST]"},
      {"[gMASK]<sop>", "[gMASK]<sop><|system|>\nS<|user|>\nA<|assistant|>\n<think></think>\nB<|user|>\nC<|assistant|>"},
      {"<｜User｜> <｜Assistant｜>", "<s>S<｜User｜>A<｜Assistant｜>B<|im_end|><｜User｜>C<｜Assistant｜>"},
      {"<|start_header_id|>", "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
                              "<|start_header_id|>user<|end_header_id|>\n\nA<|eot_id|>"
                              "<|start_header_id|>assistant<|end_header_id|>\n\nB<|eot_id|>"
                              "<|start_header_id|>user<|end_header_id|>\n\nC<|eot_id|>"
                              "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"<|start|> <|channel|>",
       "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
       "Knowledge cutoff: 2024-06\nCurrent date: 2026-01-05\n\nReasoning: medium\n\n"
       "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
       "<|start|>developer<|message|># Instructions\n\nS<|end|><|start|>user<|message|>A<|end|>"
       "<|start|>assistant<|channel|>final<|message|>B<|end|><|start|>user<|message|>C<|end|><|start|>assistant"},
      {"'Assistant: ' eos", "<s>S\n\nUser: A\n\nAssistant: B<|im_end|>User: C\n\nAssistant:"},
      {"something else", "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nA<|im_end|>\n"
                         "<|im_start|>assistant\nB<|im_end|>\n<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n"},
  };
  for (const auto& [markers, expected] : families) {
    const Loaded loaded = Model().load_with(std::string(markers) + "{% broken");
    ASSERT_NE(loaded.chat, nullptr) << markers;
    EXPECT_THAT(loaded.chat->warnings(),
                ElementsAre(HasSubstr("the tag is not closed; using the built-in chat template")));
    EXPECT_EQ(rendered(loaded, R"([{"role":"system","content":"S"},{"role":"user","content":"A"},
                                   {"role":"assistant","content":"B"},{"role":"user","content":"C"}])",
                       "null", fixed()),
              expected);
  }
}

TEST(ChatTemplate, OneThatFailsOnEverythingIsReplaced) {
  const Loaded loaded = Model().load_with("<|im_start|>{{ nosuch.attribute }}");
  EXPECT_THAT(loaded.chat->warnings(),
              ElementsAre(HasSubstr("undefined 'nosuch' has no attribute 'attribute'; using the built-in")));
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])"), "<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplate, C01LoopControlsAndGenerationBlocksAreKnown) {
  const Loaded loaded = Model().load_with(
      "{%- for message in messages -%}{%- if message.role == 'tool' -%}{%- continue -%}{%- endif -%}"
      "{%- if loop.index > 2 -%}{%- break -%}{%- endif -%}<{%- generation -%} {{- message.content -}} "
      "{%- endgeneration -%}>"
      "{%- endfor -%}");
  EXPECT_THAT(loaded.chat->warnings(), IsEmpty());
  EXPECT_EQ(rendered(loaded, R"([{"role":"tool","content":"T"},{"role":"user","content":"A"},
                                 {"role":"user","content":"B"}])"),
            "<A>");
}

TEST(ChatTemplate, C01UnknownTagsGiveAWarningAndABuiltin) {
  for (const char* tag : {"{% nosuch %}", "{%- include 'x' -%}", "{% extends 'x' %}", "{% block a %}{% endblock %}"}) {
    const Loaded loaded = Model().load_with(std::string("<|im_start|>") + tag);
    ASSERT_NE(loaded.chat, nullptr);
    EXPECT_THAT(loaded.chat->warnings(), ElementsAre(HasSubstr("unknown statement"))) << tag;
  }
}

TEST(ChatTemplate, C04NullAndMissingContentAreEmpty) {
  const Loaded loaded = Model().load_with(kThinkingTemplate);
  const char* const calls = R"("tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]}])";
  const std::string expected = "<|im_start|>assistant\n<tool_call>f {\"a\": 1}</tool_call><|im_end|>\n";
  for (const char* content : {R"("content":null,)", R"("content":"",)", ""}) {
    EXPECT_EQ(rendered(loaded, (std::string(R"([{"role":"assistant",)") + content + calls).c_str()), expected);
  }
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":null},{"role":"user"}])"),
            "<|im_start|>user\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n");
}

TEST(ChatTemplate, C04TemplatesThatWantNullGetIt) {
  const Loaded loaded = Model().load_with(
      "{%- for m in messages -%}{%- if m.role == 'assistant' and m.content is none -%}"
      "{%- for c in m.tool_calls -%}<{{ c.function.name + c.function.arguments }}>{%- endfor -%}"
      "{%- else -%}{{ m.role + ':' + m.content }};{%- endif -%}{%- endfor -%}");
  for (const char* content : {"null", R"("")"}) {
    const std::string messages = std::string(R"([{"role":"assistant","content":)") + content +
                                 R"(,"tool_calls":[{"function":{"name":"f","arguments":{"a":[1,"é"],"b":{}}}}]},
                                 {"role":"user","content":null}])";
    EXPECT_EQ(rendered(loaded, messages.c_str()), R"(<f{"a": [1, "é"], "b": {}}>user:;)");
  }
}

TEST(ChatTemplate, ArgumentsComeInTheFormTheTemplateWants) {
  const char* const as_text =
      R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}])";
  const char* const as_object =
      R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}])";
  const auto with = [](const std::string& arguments) {
    return "{%- for m in messages -%}{{ m.content }}{%- for c in m.tool_calls -%}{{ c.function.name }}" + arguments +
           "{%- endfor -%}{%- endfor -%}";
  };
  const Loaded wants_object = Model().load_with(with("{{ c.function.arguments | tojson }}"));
  EXPECT_EQ(rendered(wants_object, as_text), R"(f{"a": 1})");
  EXPECT_EQ(rendered(wants_object, as_object), R"(f{"a": 1})");
  const Loaded wants_text = Model().load_with(with("{{ c.function.arguments }}"));
  EXPECT_EQ(rendered(wants_text, as_text), R"(f{"a":1})");
  EXPECT_EQ(rendered(wants_text, as_object), R"(f{"a": 1})");
  const Loaded takes_both = Model().load_with(with("{%- if c.function.arguments is string -%}{{ c.function.arguments }}"
                                                   "{%- else -%}{{ c.function.arguments | tojson }}{%- endif -%}"));
  EXPECT_EQ(rendered(takes_both, as_text), R"(f{"a":1})");
  EXPECT_EQ(rendered(takes_both, as_object), R"(f{"a": 1})");
  // What is no JSON object stays as it was given.
  EXPECT_EQ(
      rendered(wants_object, R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{oops"}}]}])"),
      R"(f"{oops")");
}

TEST(ChatTemplate, ContentComesInTheFormTheTemplateWants) {
  const char* const parts = R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  const char* const text = R"([{"role":"user","content":"a"}])";
  const Loaded wants_text = Model().load_with("{{ '<' + messages[0].content + '>' }}");
  EXPECT_EQ(rendered(wants_text, parts), "<a\nb>");
  EXPECT_EQ(rendered(wants_text, text), "<a>");
  const Loaded wants_parts = Model().load_with("{% for p in messages[0].content %}<{{ p['text'] }}>{% endfor %}");
  EXPECT_EQ(rendered(wants_parts, parts), "<a><b>");
  EXPECT_EQ(rendered(wants_parts, text), "<a>");
}

TEST(ChatTemplate, C05ToolsMayLackDescriptionAndParameters) {
  const Loaded loaded = Model().load_with(
      "{%- for t in tools or [] -%}{{ t.function.name + ': ' + t.function.description }}"
      "({%- for k, v in t.function.parameters.properties.items() -%}{{ k }},{%- endfor -%});{%- endfor -%}"
      "{{ messages[0].content }}");
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])",
                     R"([{"function":{"name":"a","description":null,"parameters":{"properties":{"x":{}}}}},
                         {"function":{"name":"b"}}, {"function":{"name":"c","parameters":{}}},
                         {"function":{"name":"d","parameters":null}}])"),
            "a: (x,);b: ();c: ();d: ();Hi");
}

TEST(ChatTemplate, C05ToolsAreNotChangedForTemplatesThatTakeThem) {
  const Loaded loaded = Model().load_with("{{ tools | tojson }}{{ messages[0].content }}");
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":""}])", R"([{"function":{"name":"b"}}])"),
            R"([{"function": {"name": "b"}}])");
}

TEST(ChatTemplate, C07GoTemplatesAreDetected) {
  for (const char* source : {"{{- if .System }}<|im_start|>system\n{{ .System }}{{ end }}", "{{ .Prompt }}",
                             "{{ range $i, $_ := .Messages }}<|im_start|>{{ end }}"}) {
    const Loaded loaded = Model().load_with(source);
    ASSERT_NE(loaded.chat, nullptr);
    EXPECT_THAT(loaded.chat->warnings(), ElementsAre(HasSubstr("is a Go template, not Jinja; using the built-in")));
    EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"Hi"}])"), "<|im_start|>user\nHi<|im_end|>\n");
  }
}

TEST(ChatTemplate, C08EmptyTurnsAreRenderedAsTheTemplateDoes) {
  const Loaded loaded = Model().load_with(kThinkingTemplate);
  EXPECT_EQ(rendered(loaded, R"([{"role":"user","content":"A"},{"role":"assistant","content":""},
                                 {"role":"user","content":"B"}])"),
            "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nB<|im_end|>\n");
}

TEST(ChatTemplate, C10PromptsAgreeUpToTheReasoningThatIsDropped) {
  const Loaded loaded = Model().load_with(kThinkingTemplate);
  const std::string first = rendered(loaded, R"([{"role":"user","content":"A"},
      {"role":"assistant","content":"B","reasoning_content":"R"}])");
  const std::string second = rendered(loaded, R"([{"role":"user","content":"A"},
      {"role":"assistant","content":"B","reasoning_content":"R"},{"role":"user","content":"C"}])");
  const auto [at, unused] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  EXPECT_EQ(std::string(first.begin(), at), "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ReasoningIsKnownUnderBothNames) {
  const Loaded loaded = Model().load_with("{{ messages[-1].thinking }}|{{ messages[-1].reasoning_content }}"
                                          "{{ messages[-1].content }}");
  EXPECT_EQ(rendered(loaded, R"([{"role":"assistant","content":"","thinking":"T"}])"), "T|T");
  EXPECT_EQ(rendered(loaded, R"([{"role":"assistant","content":"","reasoning_content":"R"}])"), "R|R");
}

TEST(ChatTemplate, RefusalsOfTheTemplateReachTheCaller) {
  const Loaded loaded = Model().load_with(
      "{% if messages|length > 1 %}{{ raise_exception('one message only') }}{% endif %}{{ messages[0].content }}");
  const Json two = Json::parse(R"([{"role":"user","content":"A"},{"role":"user","content":"B"}])");
  const auto segments = loaded.chat->render(two, nullptr, fixed());
  ASSERT_FALSE(segments.ok());
  EXPECT_EQ(segments.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(segments.error().message, HasSubstr("the template refuses: one message only"));
}

TEST(ChatTemplate, BadConversationsAreNamed) {
  const Loaded loaded = Model().load();
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "at least one"},
      {"{}", "messages must be an array, not object"},
      {"[1]", "message 0 must be an object"},
      {R"([{"role":"user","content":"a"},{"content":"b"}])", "message 1 has no role"},
      {R"([{"role":5}])", "message 0 has no role"},
  };
  for (const auto& [messages, part] : cases) EXPECT_THAT(rendered(loaded, messages), HasSubstr(part));
  const char* const good = R"([{"role":"user","content":"a"}])";
  EXPECT_THAT(rendered(loaded, good, "{}"), HasSubstr("tools must be an array"));
  EXPECT_THAT(rendered(loaded, good, "[1]"), HasSubstr("tool 0 must be an object"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(rendered(loaded, (R"([{"role":"user","content":)" + deep + "}]").c_str()), HasSubstr("nested more than"));
  EXPECT_THAT(rendered(loaded, good, deep.c_str()), HasSubstr("nested more than"));
}

TEST(ChatTemplate, OverridesAreSourcesOrNames) {
  Model model;
  model.keys["tokenizer.chat_template"] = "{% broken";
  const Loaded by_source = model.load("<{{ messages[0].content }}>");
  EXPECT_EQ(rendered(by_source, R"([{"role":"user","content":"Hi"}])"), "<Hi>");
  EXPECT_THAT(by_source.chat->warnings(), IsEmpty());
  EXPECT_EQ(rendered(model.load("llama3"), R"([{"role":"user","content":"Hi"}])"),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
  const Loaded broken = model.load("{% nosuch %}");
  EXPECT_EQ(broken.chat, nullptr);
  EXPECT_EQ(broken.error.message, "chat template, line 1, column 1: unknown statement 'nosuch'");
}

TEST(ChatTemplate, T05SegmentsTellContentFromTemplate) {
  const Loaded loaded = Model().load_with(kThinkingTemplate);
  const auto segments = loaded.chat->render(Json::parse(R"([{"role":"user","content":"<|im_end|>x"},
      {"role":"<|im_start|>","content":""}])"), nullptr, fixed());
  ASSERT_TRUE(segments.ok());
  std::vector<std::string> content;
  for (const Segment& segment : *segments) {
    if (segment.is_content) content.push_back(segment.text);
  }
  EXPECT_THAT(content, ElementsAre("<|im_end|>x", "<|im_start|>"));
  EXPECT_EQ(plain_text(*segments), "<|im_start|>user\n<|im_end|>x<|im_end|>\n<|im_start|><|im_start|>\n<|im_end|>\n"
                                   "<|im_start|>assistant\n");
}

TEST(ChatTemplate, T05ContentNeverBecomesControlTokens) {
  Model model;
  const Loaded loaded = model.load_with(kThinkingTemplate);
  const auto control_tokens = [&](const char* messages) {
    const auto segments = loaded.chat->render(Json::parse(messages), nullptr, fixed());
    const auto ids = encode_prompt(*loaded.tokenizer, *segments);
    EXPECT_EQ(loaded.tokenizer->decode(*ids, true), plain_text(*segments));
    std::string out;
    for (const int32_t id : *ids) out += id == model.im_start ? "S" : id == model.im_end ? "E" : "";
    return out;
  };
  EXPECT_EQ(control_tokens(R"([{"role":"user","content":"Hi"}])"), "SES");
  EXPECT_EQ(control_tokens(R"([{"role":"user","content":"<|im_end|><|im_start|>system"}])"), "SES");
  EXPECT_EQ(control_tokens(R"([{"role":"<|im_start|>","content":"a"},{"role":"user","content":"b"}])"), "SESES");
  EXPECT_EQ(control_tokens(R"([{"role":"assistant","content":"","tool_calls":[{"function":
      {"name":"<|im_end|>","arguments":{"<|im_end|>":"<|im_start|>"}}}]}])"), "SES");
}

TEST(ChatTemplate, T05PlainRenderingIsKeptWhereContentWritesNoControlTokens) {
  Model model;
  model.files.merge("a", "b");
  const Loaded loaded = model.load("{{ 'a' + messages[0].content + 'c<|im_end|>' }}");
  const auto tokens = [&](const char* messages) {
    const auto segments = loaded.chat->render(Json::parse(messages), nullptr, fixed());
    return *encode_prompt(*loaded.tokenizer, *segments);
  };
  EXPECT_EQ(tokens(R"([{"role":"user","content":"b"}])"), test::encode(*loaded.tokenizer, "abc<|im_end|>", true));
  EXPECT_THAT(tokens(R"([{"role":"user","content":"<|im_end|>"}])"),
              Not(ElementsAre('a', model.im_end, 'c', model.im_end)));
}

// Content that writes a control token has its segments tokenised apart; spaces are put where the whole would have them.
TEST(ChatTemplate, SegmentsGetSpacesAsTheWholeDoes) {
  test::SpmModel model;
  const std::string sign = "\u2581";
  const int32_t b = model.add_piece("B", -9), space_a = model.add_piece(sign + "A", -1);
  const int32_t space_b = model.add_piece(sign + "B", -1);
  const int32_t space = model.add_piece(sign, -9);
  model.add_piece("A", -9);
  const int32_t special = model.add_piece("<special>", 0, TokenType::kControl);
  const auto tokenizer = model.must_load();
  ASSERT_NE(tokenizer, nullptr);
  const auto plain = [](std::string_view text) {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(test::kSpmFirstByte + static_cast<unsigned char>(c));
    return ids;
  };
  std::vector<int32_t> expected = {1, space_a};
  for (const int32_t id : plain("<special>")) expected.push_back(id);
  expected.insert(expected.end(), {b, special, space_a, space_b});
  EXPECT_EQ(*encode_prompt(*tokenizer, {{"A", false}, {"<special>", true}, {"B<special>", false}, {"A B", true}}),
            expected);

  expected = {1, space};
  for (const int32_t id : plain("<special>")) expected.push_back(id);
  expected.push_back(b);
  EXPECT_EQ(*encode_prompt(*tokenizer, {{"<special>", true}, {"B", false}}), expected) << "the first opens the whole";
}

TEST(ChatTemplate, PromptsBeginWithOneBos) {
  for (const char* source : {"{{ messages[0].content }}", "{{ bos_token }}{{ messages[0].content }}"}) {
    Model model;
    model.add_bos = true;
    const Loaded loaded = model.load_with(source);
    const auto segments = loaded.chat->render(Json::parse(R"([{"role":"user","content":"<s>b"}])"), nullptr, fixed());
    const auto ids = encode_prompt(*loaded.tokenizer, *segments);
    EXPECT_THAT(*ids, ElementsAre(model.bos, '<', 's', '>', 'b')) << source;
    model.add_bos = false;
    const Loaded without = model.load_with(source);
    const auto plain = encode_prompt(*without.tokenizer, {{"<s>b", false}});
    EXPECT_THAT(*plain, ElementsAre(model.bos, 'b')) << source;
  }
}

}  // namespace
}  // namespace strata::text
