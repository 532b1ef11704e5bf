// What replies to chats and completions have in common: the fields around the choices, chunks, usage, the end.
#pragma once

#include <string>

#include "server/api/generation.h"
#include "server/api/json.h"

namespace strata::server {

struct OpenAiReply {
  bool streamed = false;
  bool include_usage = false;
  std::string object;  // "chat.completion", whose chunks are "chat.completion.chunk"; "text_completion"
  Json frame;          // id, object, created, model, system_fingerprint

  // "stream" and "stream_options".
  static ApiResult<OpenAiReply> read(const Fields& fields, std::string object, const ApiCall& call,
                                     const ServedModel& model);

  void chunk(ReplySink& sink, Json choices) const;
  void keep_alive(ReplySink& sink) const;
  // The end of a stream, after all choices have finished.
  void end(ReplySink& sink, const Usage& usage) const;
  void whole(ReplySink& sink, Json choices, const Usage& usage) const;
  // Streamed or not.
  void fail(ReplySink& sink, const ApiError& error) const;
};

Json openai_usage(const Usage& usage);

// "max_completion_tokens", or "max_tokens" where that is absent: an upper limit.
ApiResult<std::optional<int64_t>> read_openai_max_tokens(const Fields& fields);

}  // namespace strata::server
