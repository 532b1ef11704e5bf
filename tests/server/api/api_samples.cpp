#include "server/api/api_samples.h"

namespace strata::server {
namespace {

AnswerEvent text(std::string_view t) { return {AnswerEvent::kText, std::string(t)}; }

// A complete call.
AnswerEvents call(std::string_view name, std::string_view arguments) {
  return {{AnswerEvent::kCallBegin, std::string(name)},
          {AnswerEvent::kArguments, std::string(arguments)},
          {AnswerEvent::kCallEnd, ""}};
}

// A call that was left open.
AnswerEvents open_call(std::string_view name, std::string_view arguments) {
  AnswerEvents events = call(name, arguments);
  events.pop_back();
  if (arguments.empty()) events.pop_back();
  return events;
}

AnswerEvents all(std::initializer_list<AnswerEvents> lists) {
  AnswerEvents out;
  for (const AnswerEvents& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

std::vector<DialectSample> hermes() {
  const ToolDialect* d = &kHermesTools;
  const AnswerEvents paris = call("get_weather", R"({"city": "Paris"})");
  const std::string one =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
  return {
      {d, one, paris},
      {d, one + "\n" + one, all({paris, paris})},
      {d, one + one + " and then", all({paris, paris, {text("and then")}})},
      {d, "I look it up.\n\n" + one + "\n", all({{text("I look it up.")}, paris})},
      // The other order, other keys, the other word for arguments, none at all, an object in a string.
      {d, R"(<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>)", paris},
      {d, R"(<tool_call>{"id": 7, "name": "get_weather", "parameters": {"city": "Paris"}, "x": [1, {}]}</tool_call>)",
       paris},
      {d, R"(<tool_call>{"name": "now"}</tool_call>)", call("now", "{}")},
      {d, R"(<tool_call>{"name": "now", "arguments": null}</tool_call>)", call("now", "{}")},
      {d, R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>)", paris},
      // Marks and brackets inside strings, line ends that should have been escapes, beyond ASCII.
      {d, R"(<tool_call>{"name": "now", "arguments": {"a": "</tool_call>}\"{", "b": [1, 2.5e3, true]}}</tool_call>)",
       call("now", R"({"a": "</tool_call>}\"{", "b": [1, 2.5e3, true]})")},
      {d, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"x\ny\tz\"}}</tool_call>",
       call("now", R"({"a": "x\ny\tz"})")},
      {d, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"\xE6\x97\xA5\xF0\x9F\x98\x80\"}}</tool_call>",
       call("now", "{\"a\": \"\xE6\x97\xA5\xF0\x9F\x98\x80\"}")},
      // A name that no tool has is the client's to answer.
      {d, R"(<tool_call>{"name": "unknown", "arguments": {}}</tool_call>)", call("unknown", "{}")},
      // K04: the first without its end; and open in the middle of its arguments.
      {d, R"(<tool_call>{"name": "now", "arguments": {}}<tool_call>{"name": "now", "arguments": {}}</tool_call>)",
       all({call("now", "{}"), call("now", "{}")})},
      {d, R"(<tool_call>{"name": "now", "arguments": {"x": 1<tool_call>{"name": "now", "arguments": {}}</tool_call>)",
       all({open_call("now", "{\"x\": 1"), call("now", "{}")})},
      // K07: cut by a limit, at several places.
      {d, R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Par)",
       open_call("get_weather", R"({"city": "Par)"), false},
      {d, R"(<tool_call>{"name": "get_weather", "argu)", open_call("get_weather", ""), false},
      {d, R"(<tool_call>{"name": "get_wea)", {text(R"(<tool_call>{"name": "get_wea)")}, false},
      {d, R"(<tool_c)", {text("<tool_c")}, false},
      // No call: text, to the last byte.
      {d, "<tool_call> is a tag.", {text("<tool_call> is a tag.")}},
      {d, "<tool_call>{\"a\": 1}</tool_call>", {text("<tool_call>{\"a\": 1}</tool_call>")}},
      {d, "<tool_call>{\"name\": 5}</tool_call>", {text("<tool_call>{\"name\": 5}</tool_call>")}},
      {d, "<tool_call>{\"name\": \"\"}x", {text("<tool_call>{\"name\": \"\"}x")}},
      {d, "<tool_call>[1]</tool_call>", {text("<tool_call>[1]</tool_call>")}},
      {d, "</tool_call>", {text("</tool_call>")}},
      {d, "<tool_call> " + one, all({{text("<tool_call>")}, paris})},
  };
}

std::vector<DialectSample> qwen_xml() {
  const ToolDialect* d = &kQwenXmlTools;
  const AnswerEvents paris = call("get_weather", R"({"city": "Paris", "days": 3})");
  const std::string one =
      "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "</function>\n</tool_call>";
  const auto valued = [](const std::string& key, const std::string& value) {
    return "<tool_call>\n<function=get_weather>\n<parameter=" + key + ">\n" + value +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  return {
      {d, one, paris},
      {d, one + "\n" + one, all({paris, paris})},
      {d, "First.\n" + one + "\nLast.", all({{text("First.")}, paris, {text("Last.")}})},
      {d, "<tool_call>\n<function=now>\n</function>\n</tool_call>", call("now", "{}")},
      // Values by their schema; what is not what the schema says is a string.
      {d, valued("city", "3"), call("get_weather", R"({"city": "3"})")},
      {d, valued("city", "a \"b\" \\ c\nd\n"), call("get_weather", R"({"city": "a \"b\" \\ c\nd\n"})")},
      {d, valued("city", ""), call("get_weather", R"({"city": ""})")},
      {d, valued("city", "<b>x</b> </param"), call("get_weather", R"({"city": "<b>x</b> </param"})")},
      {d, valued("days", "many"), call("get_weather", R"({"days": "many"})")},
      {d, valued("exact", "True"), call("get_weather", R"({"exact": true})")},
      {d, valued("note", "null"), call("get_weather", R"({"note": null})")},
      {d, valued("note", "12"), call("get_weather", R"({"note": "12"})")},
      {d, valued("options", R"({"a": [1, 2]})"), call("get_weather", R"({"options": {"a": [1, 2]}})")},
      {d, valued("unknown", "[1]"), call("get_weather", R"({"unknown": [1]})")},
      {d, valued("unknown", "word"), call("get_weather", R"({"unknown": "word"})")},
      // Marks left out: the outer one, the ends.
      {d, "<function=now>\n</function>", call("now", "{}")},
      {d, "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n</tool_call>",
       call("get_weather", R"({"city": "Paris"})")},
      {d, "<tool_call>\n<function=now>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
       all({call("now", "{}"), call("now", "{}")})},
      {d, "<tool_call>\n<function=now>\n", call("now", "{}")},
      // The other form between the same marks.
      {d, R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)", call("now", "{}")},
      // K07
      {d, "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar", open_call("get_weather", R"({"city": "Par)"),
       false},
      {d, "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n",
       open_call("get_weather", R"({"city": "Paris")"), false},
      {d, "<tool_call>\n<func", {text("<tool_call>\n<func")}, false},
      // No calls.
      {d, "<tool_call> is a tag, <function=x y> too", {text("<tool_call> is a tag, <function=x y> too")}},
      {d, "<tool_call>\n<funny>", {text("<tool_call>\n<funny>")}},
  };
}

std::vector<DialectSample> glm() {
  const ToolDialect* d = &kGlmTools;
  const AnswerEvents paris = call("get_weather", R"({"city": "Paris", "days": 3})");
  const std::string one =
      "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
      "<arg_value>3</arg_value>\n</tool_call>";
  return {
      {d, one, paris},
      {d, "\n" + one + "\n" + one + "\n", all({paris, paris})},
      {d, "Look:" + one + "Done", all({{text("Look:")}, paris, {text("Done")}})},
      {d, "<tool_call>now\n</tool_call>", call("now", "{}")},
      {d, "<tool_call>now</tool_call>", call("now", "{}")},
      {d, "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a\n\"b\" </arg_valu</arg_value></tool_call>",
       call("get_weather", R"({"city": "a\n\"b\" </arg_valu"})")},
      {d, "<tool_call>now\n<tool_call>now\n</tool_call>", all({call("now", "{}"), call("now", "{}")})},
      {d, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Par",
       open_call("get_weather", R"({"city": "Par)"), false},
      {d, "<tool_call>get_weather\n<arg_key>ci", open_call("get_weather", "{"), false},
      {d, "<tool_call>get_wea", {text("<tool_call>get_wea")}, false},
      {d, "<tool_call> is a tag.", {text("<tool_call> is a tag.")}},
      {d, "<tool_call>{}", {text("<tool_call>{}")}},
      {d, "<tool_call></tool_call>", {text("<tool_call></tool_call>")}},
  };
}

std::vector<DialectSample> deepseek() {
  const ToolDialect* d = &kDeepSeekTools;
  const std::string bar = "\xEF\xBD\x9C", gap = "\xE2\x96\x81";
  const std::string begin = "<" + bar + "tool" + gap + "calls" + gap + "begin" + bar + ">";
  const std::string end = "<" + bar + "tool" + gap + "calls" + gap + "end" + bar + ">";
  const std::string call_begin = "<" + bar + "tool" + gap + "call" + gap + "begin" + bar + ">";
  const std::string call_end = "<" + bar + "tool" + gap + "call" + gap + "end" + bar + ">";
  const std::string sep = "<" + bar + "tool" + gap + "sep" + bar + ">";
  const std::string json = R"({"city": "Paris"})";
  const AnswerEvents paris = call("get_weather", json);
  const std::string old_form = call_begin + "function" + sep + "get_weather\n```json\n" + json + "\n```" + call_end;
  const std::string form = call_begin + "get_weather" + sep + json + call_end;
  return {
      {d, begin + form + end, paris},
      {d, begin + old_form + end, paris},
      {d, "Look.\n" + begin + form + "\n" + form + end, all({{text("Look.")}, paris, paris})},
      {d, begin + old_form + "\n" + old_form + end, all({paris, paris})},
      {d, begin + call_begin + "get_weather" + sep + json, paris},
      // K04: the first open when the second begins.
      {d, begin + call_begin + "get_weather" + sep + "{\"city\": \"P" + form + end,
       all({open_call("get_weather", "{\"city\": \"P"), paris})},
      {d, begin + call_begin + "get_weather" + sep + "{\"city\": \"P", open_call("get_weather", "{\"city\": \"P"),
       false},
      {d, begin + call_begin + "get_wea", {text(call_begin + "get_wea")}, false},
      {d, call_begin + " no name", {text(call_begin + " no name")}},
      {d, "a" + sep + "b", {text("a" + sep + "b")}},
      {d, begin + end, {}},
  };
}

std::vector<DialectSample> harmony() {
  const ToolDialect* d = &kHarmonyTools;
  const AnswerEvents paris = call("get_weather", R"({"city": "Paris"})");
  const std::string channel = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>";
  const std::string json = R"({"city": "Paris"})";
  return {
      {d, channel + json, paris},
      {d, channel + json + "<|end|>", paris},
      {d, channel + json + "<|call|>", paris},
      {d, " to=functions.get_weather<|channel|>commentary json<|message|>" + json, paris},
      {d, "to=functions.get_weather<|channel|>commentary<|message|>" + json, paris},
      {d, "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>" + json,
       paris},
      {d, channel + json + "<|end|><|start|>assistant" + channel + json, all({paris, paris})},
      {d, "Text. to=" + channel + json, all({{text("Text. to=")}, paris})},
      {d, "<|channel|>commentary to=python<|message|>print(1)", call("python", "print(1)")},
      {d, channel, call("get_weather", "{}")},
      {d, channel + R"({"a": "x to=y <| z"})", call("get_weather", R"({"a": "x to=y <| z"})")},
      // K04, K07
      {d, channel + "{\"city\": \"P<|end|><|start|>assistant" + channel + json,
       all({open_call("get_weather", "{\"city\": \"P"), paris})},
      {d, channel + "{\"city\": \"P", open_call("get_weather", "{\"city\": \"P"), false},
      {d, channel.substr(0, 30), {text(channel.substr(0, 30))}, false},
      {d, "<|channel|>commentary<|message|>no recipient", {text("<|channel|>commentary<|message|>no recipient")}},
      {d, "<|start|>{", {text("<|start|>{")}},
  };
}

std::vector<DialectSample> llama3() {
  const ToolDialect* d = &kLlama3Tools;
  const AnswerEvents paris = call("get_weather", R"({"city": "Paris"})");
  const std::string one = R"({"name": "get_weather", "parameters": {"city": "Paris"}})";
  return {
      {d, one, paris},
      {d, "\n" + one + "\n", paris},
      {d, "<|python_tag|>" + one, paris},
      {d, one + "; " + one, all({paris, paris})},
      {d, R"({"type": "function", "name": "now", "arguments": {}})", call("now", "{}")},
      // With the tag any name will do, without it only a tool's.
      {d, R"(<|python_tag|>{"name": "unknown", "parameters": {}})", call("unknown", "{}")},
      {d, R"({"name": "unknown", "parameters": {}})", {text(R"({"name": "unknown", "parameters": {}})")}},
      {d, R"({"city": "Paris"})", {text(R"({"city": "Paris"})")}},
      {d, "As JSON: " + one, {text("As JSON: " + one)}},
      {d, "a; b", {text("a; b")}},
      {d, "<|python_tag|>now.call(x=1)", {text("<|python_tag|>now.call(x=1)")}},
      {d, R"({"name": "get_weather", "parameters": {"city": "P)", open_call("get_weather", R"({"city": "P)"), false},
      {d, R"({"name": "get_w)", {text(R"({"name": "get_w)")}, false},
  };
}

}  // namespace

const std::vector<DialectSample>& dialect_samples() {
  static const std::vector<DialectSample> samples = [] {
    std::vector<DialectSample> out;
    for (auto make : {hermes, qwen_xml, glm, deepseek, harmony, llama3}) {
      for (DialectSample& sample : make()) out.push_back(std::move(sample));
    }
    return out;
  }();
  return samples;
}

}  // namespace strata::server
