#include "cli/chat/remote_model.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/chat/remote_settings.h"
#include "cli/chat/terminal_style.h"
#include "cli/interrupt.h"
#include "cli/openai_event.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxErrorBytes = 64 << 10;
constexpr const char* kNoStream =
    "the server's answer is not a whole stream of OpenAI's API; is that a server of one?";

// What the user has set is his flag, whatever the field is called that it was sent in.
Error refusal(const Settings& settings, int status, std::string_view body) {
  Error error = openai_error(status, body);
  const std::string flag = remote_flag(settings, openai_error_field(body));
  if (!flag.empty()) error.message += format(" ({})", flag);
  return error;
}

// Takes the events of a stream and brings their text to stdout.
class StreamWriter {
 public:
  StreamWriter() : terminal_(stdout_is_terminal()), styled_(stdout_is_styled()) {}

  void take(std::string_view data) {
    const OpenAiEvent event = read_openai_event(data);
    if (event.error) error_ = event.error;
    if (event.prompt_tokens) answer_.prompt_tokens = *event.prompt_tokens;
    if (event.answer_tokens) answer_.answer_tokens = *event.answer_tokens;
    if (!event.finish.empty()) answer_.finish = event.finish;
    write_reasoning(event.reasoning);
    write_text(event.text);
  }

  // Not ok when stdout can't be written any more.
  Status written() const { return written_; }
  const std::optional<std::string>& error() const { return error_; }
  RemoteAnswer& answer() { return answer_; }

 private:
  void write_reasoning(const std::string& text) {
    answer_.reasoning += text;
    if (terminal_) write(text, true);
  }
  void write_text(const std::string& text) {
    if (terminal_ && !text.empty() && answer_.text.empty() && !answer_.reasoning.empty()) write("\n\n", false);
    answer_.text += text;
    write(text, false);
  }
  void write(const std::string& text, bool dimmed) {
    if (text.empty() || !written_.ok()) return;
    written_ = write_stdout(dim(terminal_ ? without_controls(text) : text, dimmed && styled_));
  }

  const bool terminal_, styled_;
  RemoteAnswer answer_;
  std::optional<std::string> error_;
  Status written_;
};

}  // namespace

Result<std::unique_ptr<RemoteModel>> RemoteModel::create(const Settings& settings) {
  ASSIGN_OR_RETURN(server::http::Url url, server::http::parse_url(settings.text(Key::kConnect)));
  return std::unique_ptr<RemoteModel>(new RemoteModel(settings, std::move(url)));
}

RemoteModel::RemoteModel(const Settings& settings, server::http::Url url)
    : settings_(settings), client_(std::move(url)) {}

Result<RemoteAnswer> RemoteModel::answer(const Transcript& transcript) {
  Json body = {{"messages", transcript.to_json()}};
  // Reasoning of earlier answers is not sent: servers and templates drop it.
  for (Json& message : body["messages"]) message.erase("reasoning_content");
  const std::string& reasoning = settings_.text(Key::kReasoning);
  if (reasoning != "auto") body["chat_template_kwargs"] = {{"enable_thinking", reasoning == "on"}};
  return ask("/v1/chat/completions", std::move(body));
}

Result<RemoteAnswer> RemoteModel::continue_text(const std::string& prompt) {
  return ask("/v1/completions", Json{{"prompt", prompt}});
}

Result<RemoteAnswer> RemoteModel::ask(const std::string& path, Json body) {
  body["model"] = "default";
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  RETURN_IF_ERROR(add_remote_settings(settings_, body));
  server::http::ClientRequest request{.method = "POST", .path = path, .api_key = settings_.text(Key::kApiKey)};
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  StreamWriter writer;
  server::http::SseReader events;
  std::string plain;
  bool too_long = false;
  const InterruptRequest interrupt;
  const Result<int> status = client_.ask(
      request,
      [&](std::string_view piece) {
        if (plain.size() < kMaxErrorBytes) plain += piece;
        const bool fits = events.push(piece, [&](std::string_view, std::string_view data) { writer.take(data); });
        too_long = !fits;
        return fits && writer.written().ok();
      },
      &interrupt.requested());
  RETURN_IF_ERROR(writer.written());
  if (too_long) return Error{ErrorCode::kIo, kNoStream};
  if (!status.ok() && status.error().code != ErrorCode::kCancelled) return status.error();
  if (status.ok() && *status != 200) return refusal(settings_, *status, plain);
  if (writer.error()) return Error{ErrorCode::kIo, "the server failed: " + *writer.error()};
  if (!status.ok()) {
    writer.answer().finish.clear();  // interrupted
  } else if (writer.answer().finish.empty()) {
    return Error{ErrorCode::kIo, kNoStream};
  }
  return std::move(writer.answer());
}

}  // namespace strata::cli
