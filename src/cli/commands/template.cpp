#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/commands/commands.h"
#include "cli/model_choice.h"
#include "cli/streams.h"
#include "cli/template_choice.h"
#include "text/chat_template.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<Json> read_json(Key key, const Settings& settings) {
  const std::string& path = settings.text(key);
  const char* flag = setting(key).name;
  ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxTextBytes));
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // Its message says what and where, behind the library's own prefix in brackets.
    const std::string_view what = error.what();
    return Error{ErrorCode::kBadInput, format("--{} {}: not JSON: {}", flag, printable(path),
                                              printable(what.substr(std::min(what.find("] ") + 2, what.size()))))};
  }
}

Status print_prompt(const Settings& settings) {
  if (settings.text(Key::kMessages).empty()) {
    return Error{ErrorCode::kBadInput, format("--{} is needed: a JSON file of messages, or - for standard input",
                                              setting(Key::kMessages).name)};
  }
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const auto chat, load_template(settings, *model, *tokenizer));
  ASSIGN_OR_RETURN(const Json messages, read_json(Key::kMessages, settings));
  Json tools = nullptr;
  if (!settings.text(Key::kTools).empty()) {
    ASSIGN_OR_RETURN(tools, read_json(Key::kTools, settings));
  }
  text::ChatOptions options;
  options.add_generation_prompt = settings.on(Key::kGenerationPrompt);
  ASSIGN_OR_RETURN(const auto segments, chat->render(messages, &tools, options));
  return write_stdout(text::plain_text(segments));
}

}  // namespace

const Command kTemplateCommand = {
    .name = "template",
    .arguments = "[MODEL]",
    .summary = "Print the prompt that the model's chat template makes of a conversation, and nothing else",
    .scope = kScopeTemplate,
    .take_words = take_model,
    .run = print_prompt,
};

}  // namespace strata::cli
