// strata run: continues a text, answers a message, or holds a chat.
#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "cli/answer_settings.h"
#include "cli/chat/answer_writer.h"
#include "cli/chat/chat.h"
#include "cli/chat/remote_model.h"
#include "cli/chat/remote_settings.h"
#include "cli/chat/turn_report.h"
#include "cli/commands/commands.h"
#include "cli/model_choice.h"
#include "cli/speed.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr int64_t kAutoPredict = 512;
// Places in a chat that a model with recurrent layers can go back to.
constexpr int kChatCheckpoints = 4;

Status take_model_and_prompt(Words words, Settings& settings) {
  if (words.size() > 2) {
    return Error{ErrorCode::kBadInput,
                 format("run takes a model and a prompt, but {} arguments were given; quote a prompt of several words",
                        words.size())};
  }
  if (words.size() == 1 && !names_model(words[0])) return give(settings, Key::kPrompt, words[0]);
  if (words.empty()) return {};
  if (!real_file_system().exists(words[0])) {
    const char* rule = words.size() == 2
                           ? "of two arguments, the first is the model"
                           : "an argument that ends in .gguf or has a slash is the model; give such a prompt with -p";
    return Error{ErrorCode::kNotFound, format("no such file: {} ({})", path_text(words[0]), rule)};
  }
  RETURN_IF_ERROR(give(settings, Key::kModel, words[0]));
  return words.size() == 2 ? give(settings, Key::kPrompt, words[1]) : Status();
}

bool asks_server(const Settings& settings) {
  const std::string name = environment_name(setting(Key::kConnect));
  return !settings.text(Key::kConnect).empty() || !environment(name.c_str()).empty();
}

Status take_words(Words words, Settings& settings) {
  RETURN_IF_ERROR(take_model_and_prompt(words, settings));
  return asks_server(settings) ? check_remote_flags(settings) : Status();
}

// Whether a person is there to talk, and has not asked for anything else.
bool holds_chat(const Settings& settings) {
  return !settings.is_set(Key::kPrompt) && !settings.on(Key::kRaw) && stdin_is_terminal() && stdout_is_terminal();
}

Status check_prompt_source(const Settings& settings) {
  if (settings.on(Key::kRaw) && settings.on(Key::kChat)) {
    return Error{ErrorCode::kBadInput, "--raw and --chat exclude each other"};
  }
  if (settings.is_set(Key::kPrompt) || !stdin_is_terminal() || holds_chat(settings)) return {};
  return Error{ErrorCode::kBadInput,
               "no prompt; write strata run [MODEL] \"Once upon a time\", or see strata run --help"};
}

Result<std::string> read_prompt(const Settings& settings) {
  if (settings.is_set(Key::kPrompt)) return settings.text(Key::kPrompt);
  ASSIGN_OR_RETURN(std::string text, read_stdin(kMaxTextBytes));
  // The line end that echo and editors put behind a message is not part of it.
  if (settings.on(Key::kChat) && text.ends_with('\n')) text.pop_back();
  return text;
}

Result<ChatPrompt> raw_prompt(const text::Tokenizer& tokenizer, const std::string& text) {
  ChatPrompt prompt;
  ASSIGN_OR_RETURN(prompt.ids, tokenizer.encode(text, {.parse_special = true, .add_bos = tokenizer.add_bos()}));
  if (prompt.ids.empty()) {
    return Error{ErrorCode::kBadInput,
                 "the prompt is empty, and this model has no token for the beginning of a text; give a prompt with -p"};
  }
  return prompt;
}

Result<ChatPrompt> message_prompt(const Settings& settings, const gguf::Model& model, const text::Tokenizer& tokenizer,
                                  const std::string& text) {
  if (text.empty()) return Error{ErrorCode::kBadInput, "the prompt is empty; give a message with -p"};
  ASSIGN_OR_RETURN(const ChatPrompts prompts, ChatPrompts::load(settings, model, tokenizer));
  Transcript transcript;
  transcript.add_user(text);
  return prompts.make(transcript, thinking_of(settings));
}

// Says why an answer is not as long as it was to be; kCancelled when the user stopped it.
Status report_stop(const engine::RequestResult& result, const Settings& settings, int64_t context) {
  const std::string reason = cut_reason(result, context, settings.integer(Key::kRepeatStopTokens));
  if (result.finish == engine::Finish::kCancelled) return Error{ErrorCode::kCancelled, reason};
  if (!reason.empty() && result.finish != engine::Finish::kMaxTokens) write_stderr("strata: " + reason + "\n");
  return {};
}

// The answer to stdout as it comes. On a terminal a text that is continued comes before it, and a line end after it.
Result<engine::RequestResult> write_answer(engine::Engine& engine, const text::Tokenizer& tokenizer, ChatPrompt prompt,
                                           const engine::RequestParams& params, const std::string& text_before) {
  const bool terminal = stdout_is_terminal();
  if (terminal) RETURN_IF_ERROR(write_stdout(text_before));
  engine::Scheduler scheduler(engine, tokenizer, {}, real_clock());
  AnswerWriter writer(std::move(prompt.splitter));
  Result<engine::RequestResult> result = writer.run(scheduler, nullptr, std::move(prompt.ids), params);
  if (!terminal) return result;
  // The characters so far belong to the user even when the rest failed.
  const Status ended = write_stdout("\n");
  if (result.ok() && !ended.ok()) return ended.error();
  return result;
}

void report_stats(const Stats& stats, const engine::RequestResult& result, uint32_t seed) {
  write_stderr(stats.to_text() + speed_text("prompt", result.prompt_tokens, result.prompt_ns) +
               speed_text("generated", result.answer_tokens, result.answer_ns) + format("seed {}\n", seed));
}

Status answer_once(const Settings& settings, const engine::EngineConfig& config) {
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const std::string text, read_prompt(settings));
  const bool chat = settings.on(Key::kChat);
  ASSIGN_OR_RETURN(ChatPrompt prompt, chat ? message_prompt(settings, *model, *tokenizer, text)
                                           : raw_prompt(*tokenizer, text));
  const uint32_t seed = seed_of(settings);
  const std::optional<int64_t> auto_predict = chat ? std::nullopt : std::optional(kAutoPredict);
  ASSIGN_OR_RETURN(const engine::RequestParams params,
                   request_params(settings, *model, *tokenizer, seed, auto_predict));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, open_engine(settings, *model, config, stats));
  ASSIGN_OR_RETURN(const engine::RequestResult result,
                   write_answer(*engine, *tokenizer, std::move(prompt), params, chat ? "" : text));
  RETURN_IF_ERROR(engine->save_profile());
  if (settings.on(Key::kStats)) report_stats(stats, result, seed);
  return report_stop(result, settings, engine->context());
}

Status hold_chat(const Settings& settings, engine::EngineConfig config) {
  config.max_checkpoints = kChatCheckpoints;
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const ChatPrompts prompts, ChatPrompts::load(settings, *model, *tokenizer));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, open_engine(settings, *model, config, stats));
  const ChatParts parts{
      .model = *model, .tokenizer = *tokenizer, .prompts = prompts, .engine = *engine, .stats = stats};
  ASSIGN_OR_RETURN(const auto chat, Chat::create(parts, settings));
  RETURN_IF_ERROR(chat->run());
  RETURN_IF_ERROR(engine->save_profile());
  if (settings.on(Key::kStats)) write_stderr(stats.to_text());
  return {};
}

// A model behind a server.
Status ask_server(const Settings& settings) {
  const bool chat = holds_chat(settings);
  std::string prompt;
  if (!chat) {
    ASSIGN_OR_RETURN(prompt, read_prompt(settings));
  }
  return run_remote(settings, chat, prompt);
}

Status run(const Settings& settings) {
  RETURN_IF_ERROR(check_prompt_source(settings));
  if (!settings.text(Key::kConnect).empty()) return ask_server(settings);
  ASSIGN_OR_RETURN(const engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFast));
  return holds_chat(settings) ? hold_chat(settings, config) : answer_once(settings, config);
}

}  // namespace

const Command kRunCommand = {
    .name = "run",
    .arguments = "[MODEL] [PROMPT]",
    .summary = "Chat on the terminal, or continue a text; an argument that exists, ends in .gguf or has a slash is the "
               "model",
    .scope = kScopeRun,
    .take_words = take_words,
    .run = run,
};

}  // namespace strata::cli
