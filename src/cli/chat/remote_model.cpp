#include "cli/chat/remote_model.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/chat/terminal_style.h"
#include "cli/interrupt.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxErrorBytes = 64 << 10;

// What the user has set, as requests name it.
constexpr struct {
  Key key;
  const char* field;
} kFields[] = {{Key::kTemp, "temperature"},       {Key::kTopP, "top_p"},
               {Key::kTopK, "top_k"},             {Key::kMinP, "min_p"},
               {Key::kSeed, "seed"},              {Key::kPredict, "max_tokens"},
               {Key::kRepeatPenalty, "repeat_penalty"},
               {Key::kPresencePenalty, "presence_penalty"},
               {Key::kFrequencyPenalty, "frequency_penalty"}};

void add_settings(const Settings& settings, Json& body) {
  for (const auto& [key, field] : kFields) {
    if (!settings.is_set(key) || settings.is_auto(key)) continue;
    if (setting(key).type == SettingType::kInt) {
      body[field] = settings.integer(key);
    } else {
      body[field] = settings.number(key);
    }
  }
  if (settings.on(Key::kIgnoreEos)) body["ignore_eos"] = true;
}

// The text of a member that may be absent or null.
std::string text_at(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

int64_t number_at(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

// Takes the events of a stream and brings their text to stdout.
class StreamWriter {
 public:
  StreamWriter() : terminal_(stdout_is_terminal()), styled_(stdout_is_styled()) {}

  // False when stdout can't be written any more.
  bool take(std::string_view data) {
    const Json event = Json::parse(data, nullptr, false);
    if (!event.is_object()) return true;  // [DONE]
    if (event.contains("error")) error_ = event["error"].is_object() ? text_at(event["error"], "message") : "";
    if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
      answer_.prompt_tokens = number_at(*usage, "prompt_tokens");
      answer_.answer_tokens = number_at(*usage, "completion_tokens");
    }
    const auto choices = event.find("choices");
    if (choices == event.end() || !choices->is_array() || choices->empty()) return true;
    const Json& choice = choices->front();
    if (!choice.is_object()) return true;
    if (const std::string finish = text_at(choice, "finish_reason"); !finish.empty()) answer_.finish = finish;
    const auto delta = choice.find("delta");
    const Json& part = delta == choice.end() || !delta->is_object() ? choice : *delta;
    write_reasoning(text_at(part, "reasoning_content"));
    write_text(text_at(part, delta == choice.end() ? "text" : "content"));
    return written_.ok();
  }

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

// The server's own message in a body that is no stream.
std::string message_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  const bool known = json.is_object() && json.contains("error") && json["error"].is_object();
  return printable(known ? text_at(json["error"], "message") : body, 500);
}

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
  add_settings(settings_, body);
  server::http::ClientRequest request{.method = "POST", .path = path, .api_key = settings_.text(Key::kApiKey)};
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  StreamWriter writer;
  server::http::SseReader events;
  std::string plain;
  const InterruptRequest interrupt;
  const Result<int> status = client_.ask(
      request,
      [&](std::string_view piece) {
        if (plain.size() < kMaxErrorBytes) plain += piece;
        events.push(piece, [&](std::string_view, std::string_view data) { writer.take(data); });
        return writer.written().ok();
      },
      &interrupt.requested());
  RETURN_IF_ERROR(writer.written());
  if (!status.ok() && status.error().code != ErrorCode::kCancelled) return status.error();
  if (status.ok() && *status != 200) {
    const ErrorCode code = *status >= 400 && *status < 500 ? ErrorCode::kBadInput : ErrorCode::kIo;
    return Error{code, format("the server answered {}: {}", *status, message_of(plain))};
  }
  if (writer.error()) return Error{ErrorCode::kIo, "the server failed: " + printable(*writer.error(), 500)};
  if (!status.ok()) {
    writer.answer().finish.clear();  // interrupted
  } else if (writer.answer().finish.empty()) {
    return Error{ErrorCode::kIo, "the server's answer is not a whole stream of OpenAI's API; is that a server of one?"};
  }
  return std::move(writer.answer());
}

}  // namespace strata::cli
