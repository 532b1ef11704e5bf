// A person and a model talk to each other on a terminal.
#pragma once

#include <string>

#include "base/settings.h"
#include "base/stats.h"
#include "cli/chat/chat_prompt.h"
#include "cli/chat/line_editor.h"
#include "cli/chat/transcript.h"
#include "engine/scheduler.h"

namespace strata::cli {

// What a chat is held with. All outlive it.
struct ChatParts {
  const gguf::Model& model;
  const text::Tokenizer& tokenizer;
  const ChatPrompts& prompts;
  engine::Engine& engine;  // one sequence is free
  const Stats& stats;      // of the engine
};

// One thread; stdin and stdout are terminals.
class Chat {
 public:
  static Result<std::unique_ptr<Chat>> create(const ChatParts& parts, Settings settings);

  // Until the person leaves. What goes wrong with a message is said, and the chat goes on; fails when the terminal
  // can't be written.
  Status run();

 private:
  Chat(const ChatParts& parts, Settings settings, engine::Conversation conversation,
       std::unique_ptr<LineEditor> editor);

  TypedLine read_message();
  Status take(const std::string& text);
  Status execute(const std::string& line);
  Status ask(Transcript transcript);
  Status save(const std::string& path) const;
  Status set(const std::string& assignment);
  Status set(const std::string& name, const std::string& value);
  Result<ChatPrompt> prompt_of(const Transcript& transcript) const;
  Result<engine::RequestParams> params_of(const Settings& settings) const;
  Status finish_turn(const engine::RequestResult& result, const std::string& line);

  const ChatParts parts_;
  Settings settings_;
  const uint32_t seed_;
  const bool styled_;
  uint32_t n_answers_ = 0;  // each has a seed of its own
  Transcript transcript_;
  engine::Scheduler scheduler_;
  engine::Conversation conversation_;
  std::unique_ptr<LineEditor> editor_;
  bool leaving_ = false;
  bool interrupted_ = false;  // Ctrl-C was the last that the person said
};

}  // namespace strata::cli
