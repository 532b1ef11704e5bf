#include "server/api/chat_request.h"

#include <algorithm>

#include "base/format.h"
#include "server/api/text_limit.h"
#include "server/api/tool_prompt.h"
#include "text/json_reader.h"

namespace strata::server {
namespace {

constexpr size_t kMaxToolNameBytes = 256;
constexpr std::string_view kEfforts[] = {"minimal", "low", "medium", "high", "xhigh", "max"};

bool is_tool_name(const std::string& name) {
  const auto fits = [](char byte) {
    return static_cast<unsigned char>(byte) > ' ' && std::string_view("\"'<>{}\\`\x7F").find(byte) == std::string::npos;
  };
  return !name.empty() && name.size() <= kMaxToolNameBytes && std::all_of(name.begin(), name.end(), fits);
}

// Templates that know the role say so; to others it is the system's, which it has replaced.
void rename_developer(Json& messages, std::string_view source) {
  if (source.find("developer") != std::string_view::npos) return;
  for (Json& message : messages) {
    if (message["role"] == "developer") message["role"] = "system";
  }
}

// Agents begin with several messages of the system, of which many templates take one.
void merge_leading_system(Json& messages) {
  const auto end = std::find_if(messages.begin(), messages.end(),
                                [](const Json& message) { return message["role"] != "system"; });
  if (end - messages.begin() < 2) return;
  std::string text;
  for (auto message = messages.begin(); message != end; ++message) {
    text += (text.empty() ? "" : "\n\n") + text_of((*message)["content"]);
  }
  messages[0]["content"] = std::move(text);
  messages.erase(messages.begin() + 1, end);
}

// The first message with a call whose arguments are no JSON object; some templates can't render that.
std::optional<size_t> message_with_broken_arguments(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].contains("tool_calls")) continue;
    for (const Json& call : messages[i]["tool_calls"]) {
      const Json& arguments = call.at("function").at("arguments");
      if (!arguments.is_string()) continue;
      const auto parsed = text::read_json(arguments.get_ref<const std::string&>(), kMaxJsonDepth);
      if (!parsed.ok() || !parsed->is_object()) return i;
    }
  }
  return std::nullopt;
}

ApiError cannot_render(const Error& error, const ChatRequest& request) {
  if (error.code != ErrorCode::kBadInput) return from_engine(error);
  const std::optional<size_t> broken = message_with_broken_arguments(request.messages);
  if (!broken || *broken >= request.origins.size()) return invalid_request(error.message, "messages");
  const std::string& origin = request.origins[*broken];
  return invalid_request(format("{}: the arguments of a tool call are not a JSON object, which this model's chat "
                                "template needs", origin),
                         origin);
}

// The text of the answer so far.
std::string take_beginning(Json& messages) {
  std::string text = text_of(messages.back().value("content", Json()));
  messages.erase(messages.size() - 1);
  return text;
}

}  // namespace

ApiStatus add_tool(ChatRequest& request, const std::string& name, const Json* description, const Json* parameters,
                   const std::string& param) {
  if (!is_tool_name(name)) {
    return invalid_request(format("{} is '{}', but the name of a tool has 1 to {} characters, without white space, "
                                  "quotes, backslashes and brackets",
                                  param, printable(name), kMaxToolNameBytes),
                           param);
  }
  Json function = {{"name", name}, {"description", description != nullptr ? *description : Json("")}};
  const Json none = {{"type", "object"}, {"properties", Json::object()}};
  function["parameters"] = parameters != nullptr ? *parameters : none;
  request.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  return {};
}

ApiStatus set_effort(ChatRequest& request, const std::string& effort, const std::string& param) {
  if (effort == "none") {
    request.thinking = false;
    return {};
  }
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    return invalid_request(format("{} is '{}', but must be none, minimal, low, medium, high, xhigh or max", param,
                                  printable(effort)),
                           param);
  }
  request.thinking = true;
  // Templates know three.
  const bool high = effort == "xhigh" || effort == "max";
  request.variables["reasoning_effort"] = effort == "minimal" ? "low" : high ? "high" : effort;
  return {};
}

ApiResult<ChatPrompt> make_prompt(const ChatRequest& request, const ServedModel& model) {
  const size_t cost = text_cost(request.messages) + text_cost(request.tools) + text_cost(request.variables);
  RETURN_IF_ERROR(check_prompt_text(cost, model, "messages"));
  Json messages = request.messages;
  rename_developer(messages, model.chat_template->source());
  merge_leading_system(messages);
  std::string beginning;
  if (request.continues) beginning = take_beginning(messages);
  Json tools = request.tools;
  const ToolDialect* dialect = model.tools;
  if (dialect == nullptr) {
    dialect = &kHermesTools;
    describe_tools(messages, std::exchange(tools, Json::array()));
  }

  text::ChatOptions options;
  Json variables = request.variables;
  if (request.thinking) {
    options.enable_thinking = request.thinking;
    if (!variables.contains("thinking")) variables["thinking"] = *request.thinking;
  }
  // An answer that has begun is past its reasoning.
  if (request.continues) options.enable_thinking = false;
  options.extra = &variables;
  auto segments = model.chat_template->render(messages, tools.empty() ? nullptr : &tools, options);
  if (!segments.ok()) return cannot_render(segments.error(), request);

  ChatPrompt prompt;
  prompt.style.reasoning = model.reasoning;
  prompt.style.one_call = request.one_call;
  if (!request.tools.empty()) prompt.style.dialect = dialect;
  // A tag at the end of a message opens nothing.
  const bool ends_as_template = !segments->empty() && !segments->back().is_content;
  if (model.reasoning != nullptr && ends_as_template && beginning.empty()) {
    prompt.style.reasoning_opened = model.reasoning->opened_by(*model.reasoning, text::plain_text(*segments));
  }
  if (!beginning.empty()) segments->push_back({std::move(beginning), true});
  auto ids = text::encode_prompt(*model.tokenizer, std::move(segments).value());
  if (!ids.ok()) return from_engine(ids.error(), "messages");
  prompt.ids = std::move(ids).value();
  return prompt;
}

std::vector<int32_t> shown_tokens(const AnswerStyle& style, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> shown;
  const auto add = [&](std::string_view mark) {
    const auto ids = tokenizer.encode(mark, {.parse_special = true});
    if (!ids.ok() || ids->size() != 1) return;
    if (tokenizer.token_type((*ids)[0]) == text::TokenType::kControl) shown.push_back((*ids)[0]);
  };
  if (style.reasoning != nullptr) std::for_each(style.reasoning->marks.begin(), style.reasoning->marks.end(), add);
  if (style.dialect != nullptr) std::for_each(style.dialect->marks.begin(), style.dialect->marks.end(), add);
  std::sort(shown.begin(), shown.end());
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

}  // namespace strata::server
