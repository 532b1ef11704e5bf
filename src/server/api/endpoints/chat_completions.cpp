// POST /v1/chat/completions
#include "server/api/endpoints/endpoints.h"
#include "server/api/generation.h"
#include "server/api/openai_chat.h"
#include "server/api/openai_reply.h"
#include "server/api/sampling_fields.h"

namespace strata::server {
namespace {

class ChatExchange final : public GenerationExchange {
 public:
  ChatExchange(Generation generation, OpenAiReply reply, bool with_logprobs, const ServedModel& model,
               ReplySink& sink)
      : GenerationExchange(std::move(generation), model, sink),
        reply_(std::move(reply)),
        with_logprobs_(with_logprobs),
        collected_logprobs_(jobs().size(), Json::array()) {}

  void begin() override {
    if (!reply_.streamed) return;
    sink().begin_stream();
    for (size_t i = 0; i < jobs().size(); ++i) send(i, {{"role", "assistant"}, {"content", ""}}, {});
  }
  void keep_alive() override { reply_.keep_alive(sink()); }
  void refuse(const ApiError& error) override { sink().error(error, openai_error_body(error)); }

 private:
  void send(size_t job, Json delta, const std::vector<text::Logprobs>& logprobs, const Json& finish = nullptr) {
    Json choice = {{"index", job}, {"delta", std::move(delta)}};
    choice["logprobs"] = with_logprobs_ && !logprobs.empty() ? logprobs_object(logprobs) : Json(nullptr);
    choice["finish_reason"] = finish;
    reply_.chunk(sink(), Json::array({std::move(choice)}));
  }

  Json logprobs_object(const std::vector<text::Logprobs>& logprobs) const {
    return {{"content", logprobs_json(logprobs, *model().tokenizer)}, {"refusal", nullptr}};
  }

  void on_pieces(size_t job, const std::vector<AnswerPiece>& pieces,
                 const std::vector<text::Logprobs>& logprobs) override {
    if (!reply_.streamed) {
      collect(job, logprobs);
      return;
    }
    bool first = true;
    for (const AnswerPiece& piece : pieces) {
      if (piece.event.kind == AnswerEvent::kCallEnd) continue;
      const AnswerPart& part = answer(job).parts.parts()[piece.part];
      send(job, delta_of(piece.event, part), std::exchange(first, false) ? logprobs : std::vector<text::Logprobs>());
    }
    if (first && with_logprobs_ && !logprobs.empty()) send(job, Json::object(), logprobs);
  }

  void collect(size_t job, const std::vector<text::Logprobs>& logprobs) {
    if (!with_logprobs_) return;
    for (Json& entry : logprobs_json(logprobs, *model().tokenizer)) {
      collected_logprobs_[job].push_back(std::move(entry));
    }
  }

  static Json delta_of(const AnswerEvent& event, const AnswerPart& part) {
    if (event.kind == AnswerEvent::kReasoning) return {{"reasoning_content", event.text}};
    if (event.kind == AnswerEvent::kText) return {{"content", event.text}};
    Json call = {{"index", part.nth}};
    if (event.kind == AnswerEvent::kCallBegin) {
      call["id"] = part.id;
      call["type"] = "function";
      call["function"] = {{"name", part.name}, {"arguments", ""}};
    } else {
      call["function"] = {{"arguments", event.text}};
    }
    return {{"tool_calls", Json::array({std::move(call)})}};
  }

  const char* finish_reason(size_t job) const {
    switch (end_of(job)) {
      case AnswerEnd::kCalls: return "tool_calls";
      case AnswerEnd::kLength: return "length";
      case AnswerEnd::kEnd:
      case AnswerEnd::kStopString: break;
    }
    return "stop";
  }

  void on_answer_end(size_t job) override {
    if (reply_.streamed) send(job, Json::object(), {}, finish_reason(job));
  }

  Json choice_of(size_t job) const {
    const AnswerParts& parts = answer(job).parts;
    Json calls = Json::array();
    for (const AnswerPart& part : parts.parts()) {
      if (part.kind != AnswerPart::kCall) continue;
      calls.push_back({{"id", part.id},
                       {"type", "function"},
                       {"function", {{"name", part.name}, {"arguments", part.text}}}});
    }
    const std::string text = parts.text_of(AnswerPart::kText);
    const std::string reasoning = parts.text_of(AnswerPart::kReasoning);
    Json message = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
    if (text.empty() && !calls.empty()) message["content"] = nullptr;
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    Json choice = {{"index", job}, {"message", std::move(message)}, {"logprobs", nullptr}};
    if (with_logprobs_) choice["logprobs"] = {{"content", collected_logprobs_[job]}, {"refusal", nullptr}};
    choice["finish_reason"] = finish_reason(job);
    return choice;
  }

  void on_end() override {
    if (reply_.streamed) {
      reply_.end(sink(), usage());
      return;
    }
    Json choices = Json::array();
    for (size_t i = 0; i < jobs().size(); ++i) choices.push_back(choice_of(i));
    reply_.whole(sink(), std::move(choices), usage());
  }
  void on_failure(const ApiError& error) override { reply_.fail(sink(), error); }

  const OpenAiReply reply_;
  const bool with_logprobs_;
  std::vector<Json> collected_logprobs_;  // of replies that are not streamed
};

ApiStatus read_logprobs(const Fields& fields, engine::RequestParams& params) {
  ASSIGN_OR_RETURN(const auto wanted, fields.boolean("logprobs"));
  ASSIGN_OR_RETURN(const auto top, fields.integer("top_logprobs", 0, kMaxTopLogprobs));
  if (wanted.value_or(false)) {
    params.n_logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    return invalid_request("top_logprobs needs logprobs to be true", "top_logprobs");
  }
  return {};
}

ApiStatus check_modalities(const Fields& fields) {
  ASSIGN_OR_RETURN(const Json* modalities, fields.array("modalities"));
  if (modalities == nullptr || *modalities == Json::array({"text"})) return {};
  return unsupported("modalities must be [\"text\"]: answers are text only", "modalities");
}

class ChatCompletions final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/chat/completions"; }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const override {
    ASSIGN_OR_RETURN(const Json body, parse_object(call.body));
    const Fields fields(body);
    ASSIGN_OR_RETURN(const auto name, fields.text("model"));
    RETURN_IF_ERROR(refuse_unknown_powers(fields));
    RETURN_IF_ERROR(check_response_format(fields));
    RETURN_IF_ERROR(check_modalities(fields));
    ASSIGN_OR_RETURN(engine::RequestParams params, read_sampling(fields, model, call.nonce));
    ASSIGN_OR_RETURN(params.stops, read_stops(fields, "stop"));
    ASSIGN_OR_RETURN(params.max_tokens, read_openai_max_tokens(fields));
    RETURN_IF_ERROR(read_logprobs(fields, params));
    ASSIGN_OR_RETURN(const auto count, fields.integer("n", 1, kMaxAnswers));
    ASSIGN_OR_RETURN(OpenAiReply reply, OpenAiReply::read(fields, "chat.completion", call, model));
    ASSIGN_OR_RETURN(const ChatRequest chat, read_openai_chat(fields));
    ASSIGN_OR_RETURN(ChatPrompt prompt, make_prompt(chat, model));
    RETURN_IF_ERROR(check_room(prompt.ids.size(), model, "messages"));
    params.shown_tokens = shown_tokens(prompt.style, *model.tokenizer);
    const bool with_logprobs = params.n_logprobs.has_value();
    Generation generation{.jobs = make_jobs(std::move(prompt.ids), params, count.value_or(1), model),
                          .jobs_per_prompt = static_cast<size_t>(count.value_or(1)),
                          .style = prompt.style,
                          .tools = ToolSet(chat.tools),
                          .nonce = call.nonce};
    return std::unique_ptr<Exchange>(std::make_unique<ChatExchange>(std::move(generation), std::move(reply),
                                                                    with_logprobs, model, sink));
  }
};

}  // namespace

const Endpoint& chat_completions() {
  static const ChatCompletions endpoint;
  return endpoint;
}

}  // namespace strata::server
