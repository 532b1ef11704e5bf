#include "server/api/openai_reply.h"

#include <limits>

namespace strata::server {

ApiResult<OpenAiReply> OpenAiReply::read(const Fields& fields, std::string object, const ApiCall& call,
                                         const ServedModel& model) {
  OpenAiReply reply;
  ASSIGN_OR_RETURN(const auto streamed, fields.boolean("stream"));
  reply.streamed = streamed.value_or(false);
  ASSIGN_OR_RETURN(const Json* options, fields.object("stream_options"));
  if (options != nullptr) {
    if (!reply.streamed) return invalid_request("stream_options needs stream to be true", "stream_options");
    ASSIGN_OR_RETURN(const auto usage, Fields(*options, "stream_options").boolean("include_usage"));
    reply.include_usage = usage.value_or(false);
  }
  const bool chat = object == "chat.completion";
  reply.object = std::move(object);
  reply.frame = {{"id", make_id(chat ? "chatcmpl-" : "cmpl-", call.nonce, 0)},
                 {"object", chat && reply.streamed ? reply.object + ".chunk" : reply.object},
                 {"created", call.unix_time},
                 {"model", model.id},
                 {"system_fingerprint", model.fingerprint}};
  return reply;
}

void OpenAiReply::chunk(ReplySink& sink, Json choices) const {
  Json json = frame;
  json["choices"] = std::move(choices);
  sink.event("", dump(json));
}

void OpenAiReply::keep_alive(ReplySink& sink) const {
  if (streamed) sink.comment("keep-alive");
}

void OpenAiReply::end(ReplySink& sink, const Usage& usage) const {
  if (include_usage) {
    Json json = frame;
    json["choices"] = Json::array();
    json["usage"] = openai_usage(usage);
    sink.event("", dump(json));
  }
  sink.event("", "[DONE]");
  sink.end_stream();
}

void OpenAiReply::whole(ReplySink& sink, Json choices, const Usage& usage) const {
  Json json = frame;
  json["choices"] = std::move(choices);
  json["usage"] = openai_usage(usage);
  sink.json(200, dump(json));
}

void OpenAiReply::fail(ReplySink& sink, const ApiError& error) const {
  if (!streamed) {
    sink.error(error, openai_error_body(error));
    return;
  }
  sink.event("", openai_error_body(error));
  sink.event("", "[DONE]");
  sink.end_stream();
}

Json openai_usage(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.answer},
          {"total_tokens", usage.prompt + usage.answer},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

ApiResult<std::optional<int64_t>> read_openai_max_tokens(const Fields& fields) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  ASSIGN_OR_RETURN(const auto old_limit, fields.integer("max_tokens", 1, kMost));
  ASSIGN_OR_RETURN(const auto limit, fields.integer("max_completion_tokens", 1, kMost));
  return limit ? limit : old_limit;
}

}  // namespace strata::server
