// scripted_server DIALECT [KEY]: the real server over scripted answers in one dialect of tool calls. Writes its address
// to standard output and runs until standard input ends. "script:NAME" in a prompt chooses the answer.
#include <cstdio>
#include <map>
#include <string_view>

#include "server/api/dialects/dialect.h"
#include "server/clients/scripted_generator.h"
#include "server/core/server.h"

namespace strata::server {
namespace {

constexpr const char* kJson = R"({"city": "Paris", "days": 3})";

std::string in_tags(const std::string& call) { return "<tool_call>\n" + call + "\n</tool_call>"; }

// Two calls of get_weather with kJson, after the text "Wait.".
std::string two_calls(std::string_view dialect) {
  const std::string json = kJson;
  if (dialect == "hermes") {
    const std::string call = in_tags("{\"name\": \"get_weather\", \"arguments\": " + json + "}");
    return "Wait.\n" + call + "\n" + call;
  }
  if (dialect == "qwen-xml") {
    const std::string call = in_tags(
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>");
    return "Wait.\n" + call + "\n" + call;
  }
  if (dialect == "glm") {
    const std::string call =
        "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>";
    return "Wait." + call + call;
  }
  if (dialect == "deepseek") {
    const std::string bar = "\xEF\xBD\x9C", gap = "\xE2\x96\x81", tool = "<" + bar + "tool" + gap;
    const std::string call = tool + "call" + gap + "begin" + bar + ">get_weather" + tool + "sep" + bar + ">" + json +
                             tool + "call" + gap + "end" + bar + ">";
    const std::string calls = tool + "calls" + gap;
    return "Wait." + calls + "begin" + bar + ">" + call + call + calls + "end" + bar + ">";
  }
  if (dialect == "harmony") {
    const std::string call =
        "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + json;
    return "<|channel|>commentary<|message|>Wait.<|end|>" + call + "<|end|>" + call;
  }
  const std::string call = "{\"name\": \"get_weather\", \"parameters\": " + json + "}";
  return call + "; " + call;
}

std::string thought(std::string_view dialect) {
  if (dialect == "harmony") {
    return "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Done";
  }
  return "<think>hm</think>Done";
}

ScriptedAnswer choose(std::string_view dialect, const std::string& prompt) {
  const size_t at = prompt.rfind("script:");
  const std::string_view name = at == std::string::npos ? "" : std::string_view(prompt).substr(at + 7);
  if (name.starts_with("calls")) return {.text = two_calls(dialect)};
  if (name.starts_with("think")) return {.text = thought(dialect)};
  if (name.starts_with("fail")) return {.text = "abc", .fails = true};
  if (name.starts_with("endless")) return {.text = "again ", .endless = true};
  if (name.starts_with("unicode")) return {.text = "caf\xC3\xA9 \xF0\x9F\x98\x80 \xE6\x97\xA5\xE6\x9C\xAC"};
  if (name.starts_with("stop")) return {.text = "one END two"};
  return {.text = "Hello there"};
}

// A plain template that shows the signs of the dialect in a comment.
std::string template_of(std::string_view dialect) {
  std::string signs = "<think></think>";
  for (const ToolDialect* known : tool_dialects()) {
    if (known->name != dialect) continue;
    if (dialect == "harmony") signs.clear();
    for (const std::string_view sign : known->signs) signs += " " + std::string(sign);
  }
  return "{# " + signs +
         " #}{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
}

int serve(const std::string& dialect, const char* key) {
  ServerOptions options;
  options.address.port = 0;
  if (key != nullptr) options.access.keys = {key};
  options.service.max_queue = 4;  // with the generator's slots eight at once, so that a test can fill it
  auto listening = Server::listen(options);
  if (!listening.ok()) {
    std::fprintf(stderr, "scripted_server: %s\n", listening.error().message.c_str());
    return 1;
  }
  std::unique_ptr<Server> server = std::move(listening).value();
  auto generator = std::make_unique<ScriptedGenerator>(template_of(dialect), [dialect](const std::string& prompt) {
    return choose(dialect, prompt);
  });
  const ScriptedGenerator& scripts = *generator;
  server->serve(std::move(generator), {endpoints().begin(), endpoints().end()}, nullptr);
  std::printf("%s\n", server->url().c_str());
  std::fflush(stdout);
  // "cancelled" asks how many answers were cancelled.
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    std::printf("%lld\n", static_cast<long long>(scripts.cancelled()));
    std::fflush(stdout);
  }
  server->shut_down(1000);
  return 0;
}

}  // namespace
}  // namespace strata::server

int main(int argc, char** argv) {
  return strata::server::serve(argc > 1 ? argv[1] : "hermes", argc > 2 ? argv[2] : nullptr);
}
