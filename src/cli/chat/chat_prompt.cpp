#include "cli/chat/chat_prompt.h"

#include <nlohmann/json.hpp>

#include "cli/template_choice.h"

namespace strata::cli {

ChatPrompts::ChatPrompts(std::unique_ptr<text::ChatTemplate> chat_template, const text::Tokenizer& tokenizer)
    : template_(std::move(chat_template)),
      tokenizer_(&tokenizer),
      style_(text::find_reasoning_style(template_->source(), tokenizer)) {}

Result<ChatPrompts> ChatPrompts::load(const Settings& settings, const gguf::Model& model,
                                      const text::Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(auto chat_template, load_template(settings, model, tokenizer));
  return ChatPrompts(std::move(chat_template), tokenizer);
}

Result<ChatPrompt> ChatPrompts::make(const Transcript& transcript, std::optional<bool> thinking) const {
  text::ChatOptions options;
  options.enable_thinking = thinking;
  ASSIGN_OR_RETURN(std::vector<text::Segment> segments, template_->render(transcript.to_json(), nullptr, options));
  ChatPrompt prompt;
  if (style_ != nullptr) {
    prompt.splitter = style_->make(*style_, style_->opened_by(*style_, text::plain_text(segments)));
  }
  ASSIGN_OR_RETURN(prompt.ids, text::encode_prompt(*tokenizer_, std::move(segments)));
  return prompt;
}

}  // namespace strata::cli
