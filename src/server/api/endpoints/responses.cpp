// POST /v1/responses, without memory: the client sends the whole conversation each time.
#include <limits>
#include <map>

#include "base/format.h"
#include "server/api/endpoints/endpoints.h"
#include "server/api/generation.h"
#include "server/api/openai_reply.h"
#include "server/api/responses_chat.h"
#include "server/api/sampling_fields.h"

namespace strata::server {
namespace {

constexpr const char* kInProgress = "in_progress";
constexpr const char* kCompleted = "completed";
constexpr const char* kIncomplete = "incomplete";

struct ResponseFields {
  bool streamed = false;
  bool with_logprobs = false;
  Json frame;  // what the response says of its request
};

class ResponseExchange final : public GenerationExchange {
 public:
  ResponseExchange(Generation generation, ResponseFields fields, const ServedModel& model, ReplySink& sink)
      : GenerationExchange(std::move(generation), model, sink), fields_(std::move(fields)) {}

  void begin() override {
    if (!fields_.streamed) return;
    sink().begin_stream();
    send("response.created", {{"response", response(kInProgress)}});
    send("response.in_progress", {{"response", response(kInProgress)}});
  }
  void keep_alive() override {
    if (fields_.streamed) sink().comment("keep-alive");
  }
  void refuse(const ApiError& error) override { sink().error(error, openai_error_body(error)); }

 private:
  void send(const std::string& type, Json fields) {
    Json event = {{"type", type}, {"sequence_number", n_events_++}};
    event.update(fields);
    sink().event(type, dump(event));
  }

  const AnswerPart& part(size_t index) const { return answer(0).parts.parts()[index]; }

  std::string item_id(size_t index) const {
    constexpr const char* kPrefixes[] = {"rs_", "msg_", "fc_"};
    return make_id(kPrefixes[part(index).kind], nonce(), 1000 + index);
  }

  // The part of an item's content; calls have none.
  Json content_part(size_t index, bool whole) const {
    const std::string text = whole ? part(index).text : "";
    if (part(index).kind == AnswerPart::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
    Json out = {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
    if (const auto known = logprobs_.find(index); whole && known != logprobs_.end()) out["logprobs"] = known->second;
    return out;
  }

  // As it stands now (`whole`), or empty, as it begins.
  Json item(size_t index, const char* status, bool whole) const {
    const AnswerPart& of = part(index);
    const Json content = whole ? Json::array({content_part(index, true)}) : Json::array();
    switch (of.kind) {
      case AnswerPart::kReasoning:
        return {{"id", item_id(index)}, {"type", "reasoning"}, {"summary", Json::array()}, {"content", content},
                {"encrypted_content", nullptr}, {"status", status}};
      case AnswerPart::kText:
        return {{"id", item_id(index)}, {"type", "message"}, {"status", status}, {"role", "assistant"},
                {"content", content}};
      case AnswerPart::kCall: break;
    }
    return {{"id", item_id(index)}, {"type", "function_call"}, {"status", status}, {"call_id", of.id},
            {"name", of.name}, {"arguments", whole ? of.text : ""}};
  }

  // The last item of an answer that was cut is incomplete.
  const char* final_status(size_t index) const {
    const bool cut = answer(0).finished && end_of(0) == AnswerEnd::kLength;
    const bool is_last = index + 1 == answer(0).parts.parts().size();
    return cut && is_last ? kIncomplete : kCompleted;
  }

  Json response(const char* status) const {
    Json out = fields_.frame;
    out["status"] = status;
    Json items = Json::array();
    for (size_t i = 0; answer(0).finished && i < answer(0).parts.parts().size(); ++i) {
      items.push_back(item(i, final_status(i), true));
    }
    out["output"] = std::move(items);
    if (status == std::string_view(kIncomplete)) out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (answer(0).finished) {
      const Usage used = usage();
      out["usage"] = {{"input_tokens", used.prompt},
                      {"input_tokens_details", {{"cached_tokens", used.cached}}},
                      {"output_tokens", used.answer},
                      {"output_tokens_details", {{"reasoning_tokens", used.reasoning}}},
                      {"total_tokens", used.prompt + used.answer}};
    }
    return out;
  }

  void on_pieces(size_t, const std::vector<AnswerPiece>& pieces, const std::vector<text::Logprobs>& found) override {
    if (fields_.with_logprobs) append(waiting_logprobs_, logprobs_json(found, *model().tokenizer));
    for (const AnswerPiece& piece : pieces) {
      Json logprobs = Json::array();
      if (piece.event.kind == AnswerEvent::kText) {
        logprobs = std::exchange(waiting_logprobs_, Json::array());
        append(logprobs_.try_emplace(piece.part, Json::array()).first->second, logprobs);
      }
      if (fields_.streamed) send_piece(piece, logprobs);
    }
    // Those of reasoning and of calls have no place in their items.
    if (!pieces.empty()) waiting_logprobs_ = Json::array();
  }

  static void append(Json& list, const Json& more) { list.insert(list.end(), more.begin(), more.end()); }

  void send_piece(const AnswerPiece& piece, const Json& logprobs) {
    if (piece.is_new) {
      close_item();
      open_item(piece.part);
    }
    send_delta(piece, logprobs);
  }

  Json place(size_t index) const { return {{"item_id", item_id(index)}, {"output_index", index}}; }

  Json content_place(size_t index) const {
    Json out = place(index);
    out["content_index"] = 0;
    return out;
  }

  void open_item(size_t index) {
    open_ = index;
    send("response.output_item.added", {{"output_index", index}, {"item", item(index, kInProgress, false)}});
    if (part(index).kind == AnswerPart::kCall) return;
    Json fields = content_place(index);
    fields["part"] = content_part(index, false);
    send("response.content_part.added", std::move(fields));
  }

  void send_delta(const AnswerPiece& piece, const Json& logprobs) {
    const bool is_call = part(piece.part).kind == AnswerPart::kCall;
    if (is_call && piece.event.kind != AnswerEvent::kArguments) return;
    Json fields = is_call ? place(piece.part) : content_place(piece.part);
    fields["delta"] = piece.event.text;
    switch (piece.event.kind) {
      case AnswerEvent::kReasoning: send("response.reasoning_text.delta", std::move(fields)); return;
      case AnswerEvent::kText:
        fields["logprobs"] = logprobs;
        send("response.output_text.delta", std::move(fields));
        return;
      case AnswerEvent::kArguments: send("response.function_call_arguments.delta", std::move(fields)); return;
      case AnswerEvent::kCallBegin:
      case AnswerEvent::kCallEnd: return;
    }
  }

  void close_item() {
    if (!open_) return;
    const size_t index = *open_;
    open_.reset();
    const AnswerPart& of = part(index);
    if (of.kind == AnswerPart::kCall) {
      Json fields = place(index);
      fields["name"] = of.name;
      fields["arguments"] = of.text;
      send("response.function_call_arguments.done", std::move(fields));
    } else {
      Json fields = content_place(index);
      fields["text"] = of.text;
      const bool reasoning = of.kind == AnswerPart::kReasoning;
      if (!reasoning) fields["logprobs"] = content_part(index, true)["logprobs"];
      send(reasoning ? "response.reasoning_text.done" : "response.output_text.done", std::move(fields));
      Json ended = content_place(index);
      ended["part"] = content_part(index, true);
      send("response.content_part.done", std::move(ended));
    }
    send("response.output_item.done", {{"output_index", index}, {"item", item(index, final_status(index), true)}});
  }

  void on_answer_end(size_t) override {}

  void on_end() override {
    const char* status = end_of(0) == AnswerEnd::kLength ? kIncomplete : kCompleted;
    if (!fields_.streamed) {
      sink().json(200, dump(response(status)));
      return;
    }
    close_item();
    send(format("response.{}", status), {{"response", response(status)}});
    sink().end_stream();
  }

  void on_failure(const ApiError& error) override {
    if (!fields_.streamed) {
      sink().error(error, openai_error_body(error));
      return;
    }
    Json failed = response("failed");
    failed["error"] = {{"code", "server_error"}, {"message", error.message}};
    send("response.failed", {{"response", std::move(failed)}});
    sink().end_stream();
  }

  const ResponseFields fields_;
  std::optional<size_t> open_;  // the item that is open
  std::map<size_t, Json> logprobs_;          // of items of text
  Json waiting_logprobs_ = Json::array();    // of tokens whose text is held back
  int64_t n_events_ = 0;
};

// What the reply repeats of the request.
ApiResult<ResponseFields> read_fields(const Fields& fields, const ChatRequest& chat, const ApiCall& call,
                                      const ServedModel& model, const engine::RequestParams& params) {
  ResponseFields out;
  ASSIGN_OR_RETURN(const auto streamed, fields.boolean("stream"));
  out.streamed = streamed.value_or(false);
  out.with_logprobs = params.n_logprobs.has_value();
  Json tools = Json::array();
  for (const Json& tool : chat.tools) {
    Json flat = {{"type", "function"}};
    flat.update(tool["function"]);
    flat["strict"] = false;
    tools.push_back(std::move(flat));
  }
  ASSIGN_OR_RETURN(const Json* metadata, fields.object("metadata"));
  const auto given = [&](const char* key, Json otherwise) {
    const Json* value = fields.find(key);
    return value == nullptr ? otherwise : *value;
  };
  out.frame = {{"id", make_id("resp_", call.nonce, 0)},
               {"object", "response"},
               {"created_at", call.unix_time},
               {"status", nullptr},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"instructions", given("instructions", nullptr)},
               {"max_output_tokens", given("max_output_tokens", nullptr)},
               {"model", model.id},
               {"output", Json::array()},
               {"parallel_tool_calls", !chat.one_call},
               {"previous_response_id", nullptr},
               {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
               {"store", false},
               {"temperature", params.sampling.temp},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", given("tool_choice", "auto")},
               {"tools", std::move(tools)},
               {"top_p", params.sampling.top_p},
               {"truncation", "disabled"},
               {"usage", nullptr},
               {"user", given("user", nullptr)},
               {"metadata", metadata == nullptr ? Json::object() : *metadata}};
  return out;
}

class Responses final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/responses"; }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const override {
    ASSIGN_OR_RETURN(const Json body, parse_object(call.body));
    const Fields fields(body);
    ASSIGN_OR_RETURN(const auto name, fields.text("model"));
    RETURN_IF_ERROR(refuse_unknown_powers(fields));
    ASSIGN_OR_RETURN(engine::RequestParams params, read_sampling(fields, model, call.nonce));
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    ASSIGN_OR_RETURN(params.max_tokens, fields.integer("max_output_tokens", 1, kMost));
    ASSIGN_OR_RETURN(const auto logprobs, fields.integer("top_logprobs", 0, kMaxTopLogprobs));
    if (logprobs.value_or(0) > 0) params.n_logprobs = static_cast<int>(*logprobs);
    ASSIGN_OR_RETURN(const ChatRequest chat, read_responses_chat(fields));
    ASSIGN_OR_RETURN(ResponseFields reply, read_fields(fields, chat, call, model, params));
    ASSIGN_OR_RETURN(ChatPrompt prompt, make_prompt(chat, model));
    RETURN_IF_ERROR(check_room(prompt.ids.size(), model, "input"));
    params.shown_tokens = shown_tokens(prompt.style, *model.tokenizer);
    Generation generation{.jobs = make_jobs(std::move(prompt.ids), params, 1, model),
                          .style = prompt.style,
                          .tools = ToolSet(chat.tools),
                          .nonce = call.nonce};
    return std::unique_ptr<Exchange>(
        std::make_unique<ResponseExchange>(std::move(generation), std::move(reply), model, sink));
  }
};

}  // namespace

const Endpoint& responses() {
  static const Responses endpoint;
  return endpoint;
}

}  // namespace strata::server
