#include "cli/chat/chat.h"

#include "base/counted.h"
#include "base/format.h"
#include "base/output_file.h"
#include "cli/answer_settings.h"
#include "cli/chat/answer_writer.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/terminal_style.h"
#include "cli/chat/turn_report.h"
#include "cli/interrupt.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kPromptInMessage = ". ";

// Whether a setting says something about answers, so that it may change between two of them.
bool is_about_answers(const Setting& row) {
  return (row.scope & ~uint32_t{kScopeServe}) == kScopeRun && row.key != Key::kPrompt && row.key != Key::kRaw &&
         row.key != Key::kChat;
}

void say_error(const Error& error) { write_stderr("strata: " + printable(error.message, 4096) + "\n"); }

}  // namespace

Chat::Chat(const ChatParts& parts, Settings settings, engine::Conversation conversation,
           std::unique_ptr<LineEditor> editor)
    : parts_(parts),
      settings_(std::move(settings)),
      seed_(seed_of(settings_)),
      styled_(stdout_is_styled()),
      scheduler_(parts.engine, parts.tokenizer, {}, real_clock()),
      conversation_(std::move(conversation)),
      editor_(std::move(editor)) {}

Result<std::unique_ptr<Chat>> Chat::create(const ChatParts& parts, Settings settings) {
  ASSIGN_OR_RETURN(engine::Conversation conversation, engine::Conversation::create(parts.engine));
  ASSIGN_OR_RETURN(std::unique_ptr<LineEditor> editor, LineEditor::create());
  std::unique_ptr<Chat> chat(new Chat(parts, std::move(settings), std::move(conversation), std::move(editor)));
  ASSIGN_OR_RETURN(const engine::RequestParams params, chat->params_of(chat->settings_));
  static_cast<void>(params);
  return chat;
}

Status Chat::run() {
  const IgnoredInterrupts ignored;
  RETURN_IF_ERROR(write_stdout(dim("/help lists the commands; Ctrl-D leaves\n", styled_)));
  for (;;) {
    const TypedLine message = read_message();
    if (message.kind == TypedLine::kEnd) return write_stdout("\n");
    if (message.kind == TypedLine::kInterrupt) {
      RETURN_IF_ERROR(write_stdout("\n"));
      if (interrupted_) return {};
      interrupted_ = true;
      RETURN_IF_ERROR(write_stdout(dim("Ctrl-C again leaves\n", styled_)));
      continue;
    }
    interrupted_ = false;
    if (message.kind == TypedLine::kRefused) {
      say_error({ErrorCode::kBadInput, message.text});
      continue;
    }
    RETURN_IF_ERROR(take(message.text));
    if (leaving_) return {};
  }
}

// Lines, as long as they end in a backslash.
TypedLine Chat::read_message() {
  std::string text;
  for (;;) {
    TypedLine line = editor_->read(text.empty() ? kPrompt : kPromptInMessage);
    if (line.kind != TypedLine::kText) return line;
    text += line.text;
    if (!text.ends_with('\\')) return {.kind = TypedLine::kText, .text = std::move(text)};
    text.back() = '\n';
  }
}

Status Chat::take(const std::string& text) {
  if (text.find_first_not_of(" \t\n") == std::string::npos) return {};
  if (is_chat_command(text)) return execute(text);
  Transcript next = transcript_;
  next.add_user(text.starts_with("//") ? text.substr(1) : text);
  return ask(std::move(next));
}

Status Chat::execute(const std::string& line) {
  const Result<ChatCommand> command = parse_chat_command(line);
  Transcript next = transcript_;
  Status done;
  switch (command.ok() ? command->kind : ChatCommandKind::kHelp) {
    case ChatCommandKind::kHelp:
      if (command.ok()) return write_stdout(chat_help());
      done = command.error();
      break;
    case ChatCommandKind::kReset: transcript_.reset(); break;
    case ChatCommandKind::kSystem: transcript_.set_system(command->argument); break;
    case ChatCommandKind::kRegenerate:
      if (next.drop_last_answer()) return ask(std::move(next));
      done = Error{ErrorCode::kBadInput, "there is no message that could be answered again"};
      break;
    case ChatCommandKind::kEdit:
      if (next.drop_last_turn()) {
        next.add_user(command->argument);
        return ask(std::move(next));
      }
      done = Error{ErrorCode::kBadInput, "there is no message that could be replaced"};
      break;
    case ChatCommandKind::kSave: done = save(command->argument); break;
    case ChatCommandKind::kLoad: {
      Result<Transcript> loaded = Transcript::load(command->argument);
      if (loaded.ok()) transcript_ = std::move(loaded).value();
      else done = loaded.error();
      break;
    }
    case ChatCommandKind::kSet: done = set(command->argument); break;
    case ChatCommandKind::kQuit: leaving_ = true; break;
  }
  if (!done.ok()) say_error(done.error());
  return {};
}

Status Chat::save(const std::string& path) const {
  for (const gguf::Shard& shard : parts_.model.shards()) {
    if (would_replace(path, shard.path)) {
      return Error{ErrorCode::kBadInput, format("/save {}: this is the model; give another name", path_text(path))};
    }
  }
  return transcript_.save(path);
}

Status Chat::set(const std::string& assignment) {
  const size_t end = assignment.find_first_of(" \t=");
  const std::string name = assignment.substr(0, end);
  const size_t value = end == std::string::npos ? end : assignment.find_first_not_of(" \t=", end);
  const Status done = set(name, value == std::string::npos ? "" : assignment.substr(value));
  if (done.ok()) return {};
  // Where settings are given as flags, their messages begin so.
  const std::string flag = format("--{}: ", name);
  std::string message = done.error().message;
  if (message.starts_with(flag)) message.erase(0, flag.size());
  return Error{done.error().code, format("/set {}: {}", printable(name), message)};
}

Status Chat::set(const std::string& name, const std::string& value) {
  const Setting* row = find_setting(name);
  if (row == nullptr || !is_about_answers(*row)) {
    std::string names;
    for (const Setting& each : all_settings()) {
      if (is_about_answers(each)) names += (names.empty() ? "" : ", ") + std::string(each.name);
    }
    return Error{ErrorCode::kBadInput, format("this can't be set here; these can: {}", names)};
  }
  Settings changed = settings_;
  RETURN_IF_ERROR(changed.set(row->key, value, "--" + name));
  ASSIGN_OR_RETURN(const engine::RequestParams params, params_of(changed));
  RETURN_IF_ERROR(text::check_sampler_params(params.sampling, static_cast<int32_t>(parts_.engine.n_vocab())));
  settings_ = std::move(changed);
  return {};
}

Result<engine::RequestParams> Chat::params_of(const Settings& settings) const {
  const uint32_t seed = settings.is_auto(Key::kSeed) ? seed_ : static_cast<uint32_t>(settings.integer(Key::kSeed));
  return request_params(settings, parts_.model, parts_.tokenizer, seed + n_answers_, std::nullopt);
}

Result<ChatPrompt> Chat::prompt_of(const Transcript& transcript) const {
  ASSIGN_OR_RETURN(ChatPrompt prompt, parts_.prompts.make(transcript, thinking_of(settings_)));
  if (static_cast<int64_t>(prompt.ids.size()) > parts_.engine.context()) {
    return Error{ErrorCode::kBadInput,
                 format("with this message the chat has {}, but the context has room for {}; /reset begins a new one, "
                        "--ctx makes the context larger", counted(static_cast<int64_t>(prompt.ids.size()), "token"),
                        parts_.engine.context())};
  }
  return prompt;
}

// The answer to the last message of `transcript`, which takes the place of the chat's when there is one.
Status Chat::ask(Transcript transcript) {
  Result<ChatPrompt> prompt = prompt_of(transcript);
  if (!prompt.ok()) return say_error(prompt.error()), Status();
  ASSIGN_OR_RETURN(const engine::RequestParams params, params_of(settings_));
  n_answers_++;
  const ExpertReads before = ExpertReads::of(parts_.stats);
  AnswerWriter writer(std::move(prompt->splitter));
  const Result<engine::RequestResult> result =
      writer.run(scheduler_, &conversation_, std::move(prompt->ids), params);
  RETURN_IF_ERROR(write_stdout("\n"));
  if (!result.ok()) return say_error(result.error()), Status();
  transcript.add_answer(writer.answer(), writer.reasoning());
  transcript_ = std::move(transcript);
  return finish_turn(*result, turn_line(*result, before, ExpertReads::of(parts_.stats)));
}

Status Chat::finish_turn(const engine::RequestResult& result, const std::string& line) {
  interrupted_ = result.finish == engine::Finish::kCancelled;
  const std::string cut = cut_reason(result, parts_.engine.context(), settings_.integer(Key::kRepeatStopTokens));
  return write_stdout(dim(cut.empty() ? line : line + "; " + cut, styled_) + "\n");
}

}  // namespace strata::cli
