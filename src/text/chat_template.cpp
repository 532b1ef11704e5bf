#include "text/chat_template.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/log.h"
#include "text/builtin_templates/builtin.h"
#include "text/chat_abilities.h"
#include "text/chat_messages.h"
#include "text/jinja/template.h"

namespace strata::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTemplateKey = "tokenizer.chat_template";
constexpr const char* kToolTemplateKey = "tokenizer.chat_template.tool_use";

// A template that was parsed and has shown that it works.
struct Usable {
  std::unique_ptr<const jinja::Template> parsed;
  ChatAbilities abilities;
  std::string source;
};

Result<Usable> make_usable(std::string source, std::string name, const Json& constants, bool with_tools = false) {
  Usable out;
  ASSIGN_OR_RETURN(out.parsed, jinja::Template::parse(source, std::move(name)));
  ASSIGN_OR_RETURN(out.abilities, find_abilities(*out.parsed, constants, with_tools));
  out.source = std::move(source);
  return out;
}

// Whether a tag has what only Go's templates have: {{ .System }}, {{ if .Tools }}, {{ range $i, $x := .Messages }}.
bool is_go_template(std::string_view text) {
  for (size_t at = text.find("{{"); at != std::string_view::npos; at = text.find("{{", at + 2)) {
    std::string_view rest = text.substr(at + 2);
    if (rest.starts_with('-')) rest.remove_prefix(1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
    if (rest.starts_with('.') || rest.starts_with('$')) return true;
    for (const std::string_view word : {"if ", "range ", "else if ", "with ", "define ", "template "}) {
      if (!rest.starts_with(word)) continue;
      const char next = rest.size() > word.size() ? rest[word.size()] : '\0';
      if (next == '.' || next == '$' || next == '(' || next == '"') return true;
    }
  }
  return false;
}

Usable make_builtin(const BuiltinTemplate& builtin, const Json& constants) {
  auto usable =
      make_usable(std::string(builtin.source), format("built-in chat template '{}'", builtin.name), constants);
  ASSERT(usable.ok());
  return std::move(usable).value();
}

// Strings of a request that templates compare with and write as their own text.
bool is_known_role(std::string_view key, std::string_view text) {
  static constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant",
                                                "tool",   "function",  "model"};
  return key == "role" && std::find(std::begin(kRoles), std::end(kRoles), text) != std::end(kRoles);
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  return id == kNoToken ? std::string() : tokenizer.piece(id, true);
}

Json constants_of(const Tokenizer& tokenizer) {
  return {{"bos_token", token_text(tokenizer, tokenizer.bos())}, {"eos_token", token_text(tokenizer, tokenizer.eos())}};
}

// Tokens that the text between special tokens becomes.
bool stands_for_text(TokenType type) { return type == TokenType::kNormal || type == TokenType::kByte; }

Result<std::vector<int32_t>> encode_apart(const Tokenizer& tokenizer, std::span<const Segment> segments) {
  std::vector<int32_t> ids;
  for (const Segment& segment : segments) {
    const bool opens = ids.empty() || !stands_for_text(tokenizer.token_type(ids.back()));
    ASSIGN_OR_RETURN(const auto encoded,
                     tokenizer.encode(segment.text, {.parse_special = !segment.is_content, .opens = opens}));
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  }
  return ids;
}

std::vector<int32_t> control_tokens(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<int32_t> out;
  for (const int32_t id : ids) {
    if (tokenizer.token_type(id) == TokenType::kControl) out.push_back(id);
  }
  return out;
}

std::vector<Segment> segments_of(const jinja::MarkedText& text) {
  std::vector<Segment> out;
  text.for_each_run([&](std::string_view run, bool is_content) { out.push_back({std::string(run), is_content}); });
  return out;
}

}  // namespace

struct ChatTemplate::Parts {
  Json constants;
  Usable plain;
  std::optional<Usable> with_tools;  // where the model has another template for them
  std::vector<std::string> warnings;

  // Whoever reads the log knows the file; clients are told the rest.
  void warn(const gguf::Model& model, std::string message) {
    log_warning("{}: {}", model.path(), message);
    warnings.push_back(std::move(message));
  }

  Status choose_override(const std::string& text) {
    if (const BuiltinTemplate* builtin = find_builtin(text)) {
      plain = make_builtin(*builtin, constants);
      return {};
    }
    ASSIGN_OR_RETURN(plain, make_usable(text, "chat template", constants));
    return {};
  }

  // The model's template or what takes its place.
  Status choose_plain(const gguf::Model& model) {
    if (model.find(kTemplateKey) == nullptr) {
      warn(model, format("the model has no chat template; using the built-in one '{}'", kChatml.name));
      plain = make_builtin(kChatml, constants);
      return {};
    }
    ASSIGN_OR_RETURN(std::string text, model.require_string(kTemplateKey));
    auto usable = make_usable(text, kTemplateKey, constants);
    if (usable.ok()) {
      plain = std::move(usable).value();
      return {};
    }
    const BuiltinTemplate& builtin = builtin_for(text);
    const std::string reason =
        is_go_template(text) ? format("{} is a Go template, not Jinja", kTemplateKey) : usable.error().message;
    warn(model, format("{}; using the built-in chat template '{}' instead, without tools", reason, builtin.name));
    plain = make_builtin(builtin, constants);
    return {};
  }

  Status choose_with_tools(const gguf::Model& model) {
    if (model.find(kToolTemplateKey) == nullptr) return {};
    ASSIGN_OR_RETURN(std::string text, model.require_string(kToolTemplateKey));
    auto usable = make_usable(std::move(text), kToolTemplateKey, constants, true);
    if (usable.ok()) {
      with_tools = std::move(usable).value();
    } else {
      warn(model, format("{}; tools go to {} instead", usable.error().message, kTemplateKey));
    }
    return {};
  }

  Result<std::vector<Segment>> render(const Usable& used, const Json& messages, const Json& tools,
                                      const ChatOptions& options) const {
    const Json nothing = nullptr;
    const Json generation = options.add_generation_prompt;
    const Json thinking = options.enable_thinking.value_or(false);
    // Later variables replace earlier ones.
    std::vector<jinja::Variable> variables = {{"documents", &nothing}, {"add_generation_prompt", &generation}};
    if (options.enable_thinking) variables.push_back({"enable_thinking", &thinking});
    if (options.extra != nullptr) {
      for (const auto& [name, value] : options.extra->items()) variables.push_back({name, &value, true});
    }
    for (const auto& [name, value] : constants.items()) variables.push_back({name, &value});
    variables.push_back({"messages", &messages, true});
    variables.push_back({"tools", &tools, true});
    ASSIGN_OR_RETURN(const jinja::MarkedText text,
                     used.parsed->render(variables, {.limits = {}, .now = options.now, .is_trusted = is_known_role}));
    return segments_of(text);
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::load(const gguf::Model& model, const Tokenizer& tokenizer,
                                                         const std::optional<std::string>& override_text) {
  auto parts = std::make_unique<Parts>();
  parts->constants = constants_of(tokenizer);
  if (override_text) {
    RETURN_IF_ERROR(parts->choose_override(*override_text));
  } else {
    RETURN_IF_ERROR(parts->choose_plain(model));
    RETURN_IF_ERROR(parts->choose_with_tools(model));
  }
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(parts)));
}

Result<std::vector<Segment>> ChatTemplate::render(const Json& messages, const Json* tools,
                                                  const ChatOptions& options) const {
  if (options.extra != nullptr && !options.extra->is_object()) {
    return Error{ErrorCode::kBadInput, format("variables for the chat template must be an object, not {}",
                                              options.extra->type_name())};
  }
  ASSIGN_OR_RETURN(const Json fitting_tools, fit_tools(tools));
  const Usable& used = parts_->with_tools && !fitting_tools.is_null() ? *parts_->with_tools : parts_->plain;
  ASSIGN_OR_RETURN(const Json fitting_messages, fit_messages(messages, used.abilities));
  auto segments = parts_->render(used, fitting_messages, fitting_tools, options);
  if (segments.ok() || fitting_tools.is_null()) return segments;
  auto retried = parts_->render(used, fitting_messages, with_all_fields(fitting_tools), options);
  return retried.ok() ? std::move(retried) : std::move(segments);
}

std::string_view ChatTemplate::source() const { return parts_->plain.source; }
const std::vector<std::string>& ChatTemplate::warnings() const { return parts_->warnings; }

std::string plain_text(std::span<const Segment> segments) {
  std::string out;
  for (const Segment& segment : segments) out += segment.text;
  return out;
}

Result<std::vector<int32_t>> encode_prompt(const Tokenizer& tokenizer, std::vector<Segment> segments) {
  const bool wants_bos = tokenizer.add_bos() && tokenizer.bos() != kNoToken;
  if (wants_bos && !segments.empty() && !segments[0].is_content) {
    const std::string bos = token_text(tokenizer, tokenizer.bos());
    if (segments[0].text.starts_with(bos)) segments[0].text.erase(0, bos.size());
  }
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.encode(plain_text(segments), {.parse_special = true}));
  ASSIGN_OR_RETURN(std::vector<int32_t> apart, encode_apart(tokenizer, segments));
  if (control_tokens(tokenizer, ids) != control_tokens(tokenizer, apart)) ids = std::move(apart);
  if (wants_bos) ids.insert(ids.begin(), tokenizer.bos());
  return ids;
}

}  // namespace strata::text
