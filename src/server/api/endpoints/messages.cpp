// POST /v1/messages, as Anthropic has it, and /v1/messages/count_tokens.
#include <limits>

#include "base/format.h"
#include "server/api/anthropic_chat.h"
#include "server/api/endpoints/answered.h"
#include "server/api/endpoints/endpoints.h"
#include "server/api/generation.h"
#include "server/api/reasoning_budget.h"
#include "server/api/sampling_fields.h"
#include "text/json_reader.h"

namespace strata::server {
namespace {

// Reasoning comes back with the next turn; what says that it is the server's own is never looked at.
constexpr const char* kSignature = "c3RyYXRh";

struct MessageFields {
  bool streamed = false;
  std::string id;
  std::vector<std::string> stops;
};

// The arguments of a call as the object that the protocol wants. What a limit cut off or a model got wrong is kept as
// text under a name of its own.
Json input_of(const AnswerPart& part) {
  auto input = text::read_json(part.text, kMaxJsonDepth);
  if (input.ok() && input->is_object()) return std::move(input).value();
  return {{"invalid_json", part.text}};
}

class MessageExchange final : public GenerationExchange {
 public:
  MessageExchange(Generation generation, MessageFields fields, const ServedModel& model, ReplySink& sink)
      : GenerationExchange(std::move(generation), model, sink), fields_(std::move(fields)) {}

  void begin() override {
    if (!fields_.streamed) return;
    sink().begin_stream();
    Json message = frame();
    message["usage"] = usage_json({.prompt = static_cast<int64_t>(jobs()[0].prompt.size())});
    send("message_start", {{"message", std::move(message)}});
    send("ping", Json::object());
  }
  void keep_alive() override {
    if (fields_.streamed) send("ping", Json::object());
  }
  void refuse(const ApiError& error) override { sink().error(error, anthropic_error_body(error)); }

 private:
  void send(const char* type, Json fields) {
    Json event = {{"type", type}};
    event.update(fields);
    sink().event(type, dump(event));
  }

  Json frame() const {
    return {{"id", fields_.id},          {"type", "message"},   {"role", "assistant"}, {"model", model().id},
            {"content", Json::array()}, {"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  }

  static Json usage_json(const Usage& usage) {
    return {{"input_tokens", usage.prompt - usage.cached},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage.cached},
            {"output_tokens", usage.answer}};
  }

  void on_pieces(size_t, const std::vector<AnswerPiece>& pieces, const std::vector<text::Logprobs>&) override {
    if (!fields_.streamed) return;
    for (const AnswerPiece& piece : pieces) {
      if (piece.is_new) {
        close_block();
        open_block(piece.part);
      }
      send_delta(piece);
    }
  }

  const AnswerPart& part(size_t index) const { return answer(0).parts.parts()[index]; }

  void open_block(size_t index) {
    Json block;
    switch (part(index).kind) {
      case AnswerPart::kReasoning: block = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}; break;
      case AnswerPart::kText: block = {{"type", "text"}, {"text", ""}}; break;
      case AnswerPart::kCall:
        block = {{"type", "tool_use"}, {"id", part(index).id}, {"name", part(index).name}, {"input", Json::object()}};
        break;
    }
    send("content_block_start", {{"index", index}, {"content_block", std::move(block)}});
    open_ = index;
  }

  void close_block() {
    if (!open_) return;
    if (part(*open_).kind == AnswerPart::kReasoning) {
      send_delta(*open_, {{"type", "signature_delta"}, {"signature", kSignature}});
    }
    send("content_block_stop", {{"index", *open_}});
    open_.reset();
  }

  void send_delta(size_t index, Json delta) {
    send("content_block_delta", {{"index", index}, {"delta", std::move(delta)}});
  }

  void send_delta(const AnswerPiece& piece) {
    const std::string& text = piece.event.text;
    switch (piece.event.kind) {
      case AnswerEvent::kReasoning: send_delta(piece.part, {{"type", "thinking_delta"}, {"thinking", text}}); return;
      case AnswerEvent::kText: send_delta(piece.part, {{"type", "text_delta"}, {"text", text}}); return;
      case AnswerEvent::kArguments:
        send_delta(piece.part, {{"type", "input_json_delta"}, {"partial_json", text}});
        return;
      case AnswerEvent::kCallBegin:
      case AnswerEvent::kCallEnd: return;
    }
  }

  const char* stop_reason() const {
    switch (end_of(0)) {
      case AnswerEnd::kEnd: return "end_turn";
      case AnswerEnd::kStopString: return "stop_sequence";
      case AnswerEnd::kCalls: return "tool_use";
      case AnswerEnd::kLength: break;
    }
    return "max_tokens";
  }

  Json stop_sequence() const {
    const std::optional<size_t> stop = answer(0).result.stop;
    if (end_of(0) != AnswerEnd::kStopString || !stop) return nullptr;
    return fields_.stops[*stop];
  }

  Json content() const {
    Json blocks = Json::array();
    for (const AnswerPart& part : answer(0).parts.parts()) {
      switch (part.kind) {
        case AnswerPart::kReasoning:
          blocks.push_back({{"type", "thinking"}, {"thinking", part.text}, {"signature", kSignature}});
          break;
        case AnswerPart::kText: blocks.push_back({{"type", "text"}, {"text", part.text}}); break;
        case AnswerPart::kCall:
          blocks.push_back({{"type", "tool_use"}, {"id", part.id}, {"name", part.name}, {"input", input_of(part)}});
          break;
      }
    }
    return blocks;
  }

  void on_answer_end(size_t) override {}

  void on_end() override {
    if (!fields_.streamed) {
      Json message = frame();
      message["content"] = content();
      message["stop_reason"] = stop_reason();
      message["stop_sequence"] = stop_sequence();
      message["usage"] = usage_json(usage());
      sink().json(200, dump(message));
      return;
    }
    close_block();
    Json delta = {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}};
    send("message_delta", {{"delta", std::move(delta)}, {"usage", usage_json(usage())}});
    send("message_stop", Json::object());
    sink().end_stream();
  }

  void on_failure(const ApiError& error) override {
    if (!fields_.streamed) {
      sink().error(error, anthropic_error_body(error));
      return;
    }
    sink().event("error", anthropic_error_body(error));
    sink().end_stream();
  }

  const MessageFields fields_;
  std::optional<size_t> open_;  // the block that is open
};

class Messages final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/messages"; }
  std::string error_body(const ApiError& error) const override { return anthropic_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const override {
    ASSIGN_OR_RETURN(const Json body, parse_object(call.body));
    const Fields fields(body);
    ASSIGN_OR_RETURN(const auto name, fields.text("model"));
    RETURN_IF_ERROR(refuse_unknown_powers(fields));
    ASSIGN_OR_RETURN(engine::RequestParams params, read_sampling(fields, model, call.nonce));
    ASSIGN_OR_RETURN(params.stops, read_stops(fields, "stop_sequences"));
    ASSIGN_OR_RETURN(params.max_tokens, fields.integer("max_tokens", 1, std::numeric_limits<int64_t>::max()));
    if (!params.max_tokens) return fields.wrong_type("max_tokens", "an integer");
    ASSIGN_OR_RETURN(const auto streamed, fields.boolean("stream"));
    ASSIGN_OR_RETURN(const ChatRequest chat, read_anthropic_chat(fields));
    ASSIGN_OR_RETURN(ChatPrompt prompt, make_prompt(chat, model));
    RETURN_IF_ERROR(check_room(prompt.ids.size(), model, "messages"));
    params.shown_tokens = shown_tokens(prompt.style, *model.tokenizer);
    const ToolSet offered(chat.tools);
    if (chat.reasoning_budget) {
      params.make_guide =
          reasoning_guide(prompt.style, offered, *chat.reasoning_budget, model, params.shown_tokens);
    }
    MessageFields reply{.streamed = streamed.value_or(false),
                        .id = make_id("msg_", call.nonce, 0),
                        .stops = params.stops};
    Generation generation{.jobs = make_jobs(std::move(prompt.ids), params, 1, model),
                          .style = prompt.style,
                          .tools = offered,
                          .call_prefix = "toolu_",
                          .nonce = call.nonce};
    return std::unique_ptr<Exchange>(
        std::make_unique<MessageExchange>(std::move(generation), std::move(reply), model, sink));
  }
};

class CountTokens final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/messages/count_tokens"; }
  std::string error_body(const ApiError& error) const override { return anthropic_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const override {
    ASSIGN_OR_RETURN(const Json body, parse_object(call.body));
    ASSIGN_OR_RETURN(const ChatRequest chat, read_anthropic_chat(Fields(body)));
    ASSIGN_OR_RETURN(const ChatPrompt prompt, make_prompt(chat, model));
    return answered(sink, dump({{"input_tokens", prompt.ids.size()}}));
  }
};

}  // namespace

const Endpoint& messages() {
  static const Messages endpoint;
  return endpoint;
}

const Endpoint& count_tokens() {
  static const CountTokens endpoint;
  return endpoint;
}

}  // namespace strata::server
