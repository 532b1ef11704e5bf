// A person talks to a model behind a server.
#include "base/counted.h"
#include "base/format.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/line_editor.h"
#include "cli/chat/remote_model.h"
#include "cli/chat/terminal_style.h"
#include "cli/interrupt.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

class RemoteChat {
 public:
  RemoteChat(RemoteModel& model, std::unique_ptr<LineEditor> editor) : model_(model), editor_(std::move(editor)) {}

  Status run() {
    const IgnoredInterrupts ignored;
    RETURN_IF_ERROR(write_stdout(dim("/help lists the commands; Ctrl-D leaves\n", stdout_is_styled())));
    while (!leaving_) {
      const TypedLine line = editor_->read("> ");
      switch (line.kind) {
        case TypedLine::kEnd: return write_stdout("\n");
        case TypedLine::kInterrupt: RETURN_IF_ERROR(write_stdout("\n")); break;
        case TypedLine::kRefused: say(Error{ErrorCode::kBadInput, line.text}); break;
        case TypedLine::kText: RETURN_IF_ERROR(take(line.text)); break;
      }
    }
    return {};
  }

 private:
  static void say(const Status& status) {
    if (!status.ok()) write_stderr("strata: " + printable(status.error().message, 4096) + "\n");
  }

  Status take(const std::string& text) {
    if (text.find_first_not_of(" \t\n") == std::string::npos) return {};
    if (is_chat_command(text)) return execute(text);
    Transcript next = transcript_;
    next.add_user(text.starts_with("//") ? text.substr(1) : text);
    return ask(std::move(next));
  }

  Status execute(const std::string& line) {
    const Result<ChatCommand> command = parse_chat_command(line);
    if (!command.ok()) return say(command.error()), Status();
    Transcript next = transcript_;
    switch (command->kind) {
      case ChatCommandKind::kHelp: return write_stdout(chat_help());
      case ChatCommandKind::kReset: transcript_.reset(); break;
      case ChatCommandKind::kSystem: transcript_.set_system(command->argument); break;
      case ChatCommandKind::kRegenerate:
        if (next.drop_last_answer()) return ask(std::move(next));
        say(Error{ErrorCode::kBadInput, "there is no message that could be answered again"});
        break;
      case ChatCommandKind::kEdit:
        if (next.drop_last_turn()) {
          next.add_user(command->argument);
          return ask(std::move(next));
        }
        say(Error{ErrorCode::kBadInput, "there is no message that could be replaced"});
        break;
      case ChatCommandKind::kSave: say(transcript_.save(command->argument)); break;
      case ChatCommandKind::kLoad: {
        Result<Transcript> loaded = Transcript::load(command->argument);
        if (loaded.ok()) transcript_ = std::move(loaded).value();
        else say(loaded.error());
        break;
      }
      case ChatCommandKind::kSet:
        say(Error{ErrorCode::kUnsupported, "with --connect, settings are given as flags when the chat begins"});
        break;
      case ChatCommandKind::kQuit: leaving_ = true; break;
    }
    return {};
  }

  // The answer to the last message of `transcript`, which takes the place of the chat's when there is one.
  Status ask(Transcript transcript) {
    const Result<RemoteAnswer> answer = model_.answer(transcript);
    RETURN_IF_ERROR(write_stdout("\n"));
    if (!answer.ok()) return say(answer.error()), Status();
    transcript.add_answer(answer->text, answer->reasoning);
    transcript_ = std::move(transcript);
    std::string line = format("prompt {}, answer {}", counted(answer->prompt_tokens, "token"),
                              counted(answer->answer_tokens, "token"));
    if (answer->finish == "length") line += "; cut at its longest";
    if (answer->finish.empty()) line = "interrupted";
    return write_stdout(dim(line, stdout_is_styled()) + "\n");
  }

  RemoteModel& model_;
  std::unique_ptr<LineEditor> editor_;
  Transcript transcript_;
  bool leaving_ = false;
};

}  // namespace

Status run_remote(const Settings& settings, bool holds_chat, const std::string& prompt) {
  ASSIGN_OR_RETURN(const auto model, RemoteModel::create(settings));
  if (holds_chat) {
    ASSIGN_OR_RETURN(std::unique_ptr<LineEditor> editor, LineEditor::create());
    return RemoteChat(*model, std::move(editor)).run();
  }
  if (prompt.empty()) return Error{ErrorCode::kBadInput, "the prompt is empty; give a message with -p"};
  Transcript transcript;
  transcript.add_user(prompt);
  const bool chat = settings.on(Key::kChat);
  if (!chat && stdout_is_terminal()) RETURN_IF_ERROR(write_stdout(prompt));
  const Result<RemoteAnswer> answer = chat ? model->answer(transcript) : model->continue_text(prompt);
  if (stdout_is_terminal()) RETURN_IF_ERROR(write_stdout("\n"));
  RETURN_IF_ERROR(answer);
  return answer->finish.empty() ? Status(Error{ErrorCode::kCancelled, "interrupted"}) : Status();
}

}  // namespace strata::cli
