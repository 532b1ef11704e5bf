// From the messages of a chat to the prompt of the model, and the parts of its answer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/settings.h"
#include "cli/chat/transcript.h"
#include "gguf/gguf.h"
#include "text/chat_template.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace strata::cli {

struct ChatPrompt {
  std::vector<int32_t> ids;
  std::unique_ptr<text::ReasoningSplitter> splitter;  // for the answer; null when the model has no marks for reasoning
};

// Immutable after load. Refers to the tokenizer.
class ChatPrompts {
 public:
  // Prompts are made with the template that the settings choose.
  static Result<ChatPrompts> load(const Settings& settings, const gguf::Model& model, const text::Tokenizer& tokenizer);

  // `thinking`: what the template is told about it; nothing where absent.
  Result<ChatPrompt> make(const Transcript& transcript, std::optional<bool> thinking) const;

 private:
  ChatPrompts(std::unique_ptr<text::ChatTemplate> chat_template, const text::Tokenizer& tokenizer);

  std::unique_ptr<text::ChatTemplate> template_;
  const text::Tokenizer* tokenizer_;
  const text::ReasoningStyle* style_;  // null for none
};

}  // namespace strata::cli
