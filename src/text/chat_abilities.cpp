#include "text/chat_abilities.h"

namespace strata::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUserText = "probe-user-text";
constexpr const char* kToolName = "probe_tool";
constexpr const char* kArguments = R"({"probe_key": "probe_value"})";
constexpr const char* kPythonArguments = "{'probe_key': 'probe_value'}";

// Named unlike the one that is called, which is looked for in renderings.
Json listed_tool() {
  const Json properties = {{"listed_key", {{"type", "string"}, {"description", "a text"}}}};
  const Json function = {{"name", "listed_tool"},
                         {"description", "a tool"},
                         {"parameters", {{"type", "object"}, {"properties", properties}}}};
  return Json::array({{{"type", "function"}, {"function", function}}});
}

class Prober {
 public:
  Prober(const jinja::Template& chat_template, const Json& constants, bool with_tools)
      : template_(chat_template), constants_(constants), tools_(with_tools ? listed_tool() : Json(nullptr)) {}

  Result<std::string> render(const Json& messages) const {
    const Json yes = true;
    const Json nothing = nullptr;
    std::vector<jinja::Variable> variables;
    for (const auto& [name, value] : constants_.items()) variables.push_back({name, &value});
    variables.push_back({"messages", &messages});
    variables.push_back({"tools", &tools_});
    variables.push_back({"documents", &nothing});
    variables.push_back({"add_generation_prompt", &yes});
    ASSIGN_OR_RETURN(const jinja::MarkedText text, template_.render(variables, {}));
    return text.bytes();
  }

  // "" where the rendering fails.
  std::string text_or_nothing(const Json& messages) const {
    auto text = render(messages);
    return text.ok() ? std::move(text).value() : std::string();
  }

 private:
  const jinja::Template& template_;
  const Json& constants_;
  const Json tools_;
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Json user_message(const Json& content) { return {{"role", "user"}, {"content", content}}; }

// A tool is called and answers. Some templates insist on ids of nine characters.
Json tool_conversation(const Json& content, const Json& arguments) {
  const Json call = {{"id", "call00001"},
                     {"type", "function"},
                     {"function", {{"name", kToolName}, {"arguments", arguments}}}};
  return Json::array({user_message(kUserText),
                      {{"role", "assistant"}, {"content", content}, {"tool_calls", Json::array({call})}},
                      {{"role", "tool"}, {"tool_call_id", "call00001"}, {"name", kToolName}, {"content", "done"}}});
}

void find_call_abilities(const Prober& prober, const Json& content, ChatAbilities& abilities) {
  const std::string with_object = prober.text_or_nothing(tool_conversation(content, Json::parse(kArguments)));
  const std::string with_text = prober.text_or_nothing(tool_conversation(content, kArguments));
  // Python's notation of an object is what a template writes that expected a string.
  abilities.object_arguments = contains(with_object, "probe_key") && !contains(with_object, kPythonArguments);
  abilities.text_arguments = contains(with_text, kArguments);
}

}  // namespace

Result<ChatAbilities> find_abilities(const jinja::Template& chat_template, const Json& constants,
                                     bool with_tools) {
  const Prober prober(chat_template, constants, with_tools);
  ChatAbilities abilities;
  const auto text = prober.render(Json::array({user_message(kUserText)}));
  abilities.text_content = text.ok() && contains(*text, kUserText);
  const Json parts = Json::array({{{"type", "text"}, {"text", kUserText}}});
  const std::string from_parts = prober.text_or_nothing(Json::array({user_message(parts)}));
  // A template that does not know parts writes the list as it is.
  abilities.content_parts = contains(from_parts, kUserText) && !contains(from_parts, "'type'") &&
                            !contains(from_parts, "\"type\"");
  if (!text.ok() && !abilities.content_parts) return text.error();

  const Json empty = abilities.text_content ? Json("") : Json::array();
  find_call_abilities(prober, empty, abilities);
  if (!abilities.object_arguments && !abilities.text_arguments) {
    find_call_abilities(prober, nullptr, abilities);
    abilities.null_with_calls = abilities.object_arguments || abilities.text_arguments;
  }
  return abilities;
}

}  // namespace strata::text
