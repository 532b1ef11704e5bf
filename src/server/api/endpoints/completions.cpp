// POST /v1/completions: text goes on, without a chat template.
#include <algorithm>

#include "base/format.h"
#include "server/api/endpoints/endpoints.h"
#include "server/api/generation.h"
#include "server/api/openai_chat.h"
#include "server/api/openai_reply.h"
#include "server/api/sampling_fields.h"
#include "server/api/text_limit.h"
#include "text/utf8.h"

namespace strata::server {
namespace {

// A token's text, where it is text: pieces of characters are all alike in JSON, so they are written as OpenAI's API
// has them, "bytes:\xe6\x97".
std::string token_text(const text::Tokenizer& tokenizer, int32_t id) {
  std::string piece = tokenizer.piece(id, true);
  if (text::is_valid_utf8(piece)) return piece;
  std::string text = "bytes:";
  for (const char byte : piece) text += format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

size_t characters_begun(std::string_view piece) {
  return static_cast<size_t>(std::count_if(piece.begin(), piece.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of the next part of the answer.
class CompletionLogprobs {
 public:
  Json take(const std::vector<text::Logprobs>& logprobs, const text::Tokenizer& tokenizer) {
    Json tokens = Json::array(), chosen = Json::array(), top = Json::array(), offsets = Json::array();
    for (const text::Logprobs& entry : logprobs) {
      tokens.push_back(token_text(tokenizer, entry.chosen.id));
      chosen.push_back(finite_logprob(entry.chosen.logprob));
      Json best = Json::object();
      for (const text::TokenLogprob& other : entry.top) {
        best[token_text(tokenizer, other.id)] = finite_logprob(other.logprob);
      }
      top.push_back(std::move(best));
      offsets.push_back(offset_);
      offset_ += characters_begun(tokenizer.piece(entry.chosen.id, true));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(chosen)},
            {"top_logprobs", std::move(top)},
            {"text_offset", std::move(offsets)}};
  }

 private:
  size_t offset_ = 0;  // characters
};

class CompletionExchange final : public GenerationExchange {
 public:
  CompletionExchange(Generation generation, OpenAiReply reply, bool with_logprobs, const ServedModel& model,
                     ReplySink& sink)
      : GenerationExchange(std::move(generation), model, sink),
        reply_(std::move(reply)),
        with_logprobs_(with_logprobs),
        formats_(jobs().size()),
        collected_(jobs().size()) {}

  void begin() override {
    if (reply_.streamed) sink().begin_stream();
  }
  void keep_alive() override { reply_.keep_alive(sink()); }
  void refuse(const ApiError& error) override { sink().error(error, openai_error_body(error)); }

 private:
  Json choice(size_t job, std::string text, const std::vector<text::Logprobs>& logprobs, const Json& finish) {
    Json out = {{"index", job}, {"text", std::move(text)}, {"logprobs", nullptr}, {"finish_reason", finish}};
    if (with_logprobs_) out["logprobs"] = formats_[job].take(logprobs, *model().tokenizer);
    return out;
  }

  void on_pieces(size_t job, const std::vector<AnswerPiece>& pieces,
                 const std::vector<text::Logprobs>& logprobs) override {
    if (!reply_.streamed) {
      collected_[job].insert(collected_[job].end(), logprobs.begin(), logprobs.end());
      return;
    }
    std::string text;
    for (const AnswerPiece& piece : pieces) text += piece.event.text;
    reply_.chunk(sink(), Json::array({choice(job, std::move(text), logprobs, nullptr)}));
  }

  const char* finish_reason(size_t job) const { return end_of(job) == AnswerEnd::kLength ? "length" : "stop"; }

  void on_answer_end(size_t job) override {
    if (reply_.streamed) reply_.chunk(sink(), Json::array({choice(job, "", {}, finish_reason(job))}));
  }

  void on_end() override {
    if (reply_.streamed) {
      reply_.end(sink(), usage());
      return;
    }
    Json choices = Json::array();
    for (size_t i = 0; i < jobs().size(); ++i) {
      choices.push_back(choice(i, answer(i).parts.text_of(AnswerPart::kText), collected_[i], finish_reason(i)));
    }
    reply_.whole(sink(), std::move(choices), usage());
  }
  void on_failure(const ApiError& error) override { reply_.fail(sink(), error); }

  const OpenAiReply reply_;
  const bool with_logprobs_;
  std::vector<CompletionLogprobs> formats_;
  std::vector<std::vector<text::Logprobs>> collected_;  // of replies that are not streamed
};

using Prompts = std::vector<std::vector<int32_t>>;

bool is_list_of_integers(const Json& json) {
  return json.is_array() && !json.empty() && json[0].is_number_integer();
}

ApiResult<std::vector<int32_t>> read_prompt(const Json& prompt, const std::string& name, const ServedModel& model) {
  if (prompt.is_string()) {
    RETURN_IF_ERROR(check_prompt_text(text_cost(prompt), model, name));
    const text::EncodeOptions options{.parse_special = true, .add_bos = model.tokenizer->add_bos()};
    auto ids = model.tokenizer->encode(prompt.get_ref<const std::string&>(), options);
    if (!ids.ok()) return from_engine(ids.error(), name);
    if (ids->empty()) return invalid_request(format("{} is empty; a model continues at least one token", name), name);
    return std::move(ids).value();
  }
  if (!is_list_of_integers(prompt)) {
    return invalid_request(format("{} must be a string or a list of token ids", name), name, "invalid_type");
  }
  std::vector<int32_t> ids;
  for (const Json& id : prompt) {
    const bool known = id.is_number_integer() && id >= 0 && id < model.tokenizer->vocab_size();
    if (!known) {
      return invalid_request(format("{} has {}, but token ids go from 0 to {}", name, printable(dump(id)),
                                    model.tokenizer->vocab_size() - 1), name);
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// Each with `count` answers.
ApiStatus check_number_of_prompts(size_t n_prompts, int64_t count) {
  if (static_cast<int64_t>(n_prompts) <= kMaxJobs / count) return {};
  return invalid_request(format("{} prompts with n = {} are more than {} answers", n_prompts, count, kMaxJobs),
                         "prompt");
}

// One prompt or several: a text, a list of texts, a list of ids, a list of lists of ids.
ApiResult<Prompts> read_prompts(const Fields& fields, int64_t count, const ServedModel& model) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return fields.wrong_type("prompt", "a string or a list of token ids");
  Prompts prompts;
  if (prompt->is_array() && !is_list_of_integers(*prompt)) {
    if (prompt->empty()) return invalid_request("prompt is empty", "prompt");
    RETURN_IF_ERROR(check_number_of_prompts(prompt->size(), count));
    for (size_t i = 0; i < prompt->size(); ++i) {
      ASSIGN_OR_RETURN(auto ids, read_prompt((*prompt)[i], fields.name("prompt", i), model));
      RETURN_IF_ERROR(check_room(ids.size(), model, "prompt"));
      prompts.push_back(std::move(ids));
    }
  } else {
    ASSIGN_OR_RETURN(auto ids, read_prompt(*prompt, "prompt", model));
    RETURN_IF_ERROR(check_room(ids.size(), model, "prompt"));
    prompts.push_back(std::move(ids));
  }
  return prompts;
}

ApiStatus refuse_old_powers(const Fields& fields, int64_t count) {
  ASSIGN_OR_RETURN(const auto echo, fields.boolean("echo"));
  if (echo.value_or(false)) return unsupported("echo: the prompt is not repeated; put it in front yourself", "echo");
  ASSIGN_OR_RETURN(const auto best_of, fields.integer("best_of", 1, kMaxAnswers));
  if (best_of.value_or(count) != count) {
    return unsupported("best_of must equal n: all answers that are computed are given", "best_of");
  }
  return {};
}

class Completions final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/v1/completions"; }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel& model,
                                            ReplySink& sink) const override {
    ASSIGN_OR_RETURN(const Json body, parse_object(call.body));
    const Fields fields(body);
    ASSIGN_OR_RETURN(const auto name, fields.text("model"));
    RETURN_IF_ERROR(refuse_unknown_powers(fields));
    RETURN_IF_ERROR(check_response_format(fields));
    ASSIGN_OR_RETURN(engine::RequestParams params, read_sampling(fields, model, call.nonce));
    ASSIGN_OR_RETURN(params.stops, read_stops(fields, "stop"));
    ASSIGN_OR_RETURN(params.max_tokens, read_openai_max_tokens(fields));
    ASSIGN_OR_RETURN(const auto logprobs, fields.integer("logprobs", 0, kMaxTopLogprobs));
    if (logprobs) params.n_logprobs = static_cast<int>(*logprobs);
    ASSIGN_OR_RETURN(const auto n, fields.integer("n", 1, kMaxAnswers));
    const int64_t count = n.value_or(1);
    RETURN_IF_ERROR(refuse_old_powers(fields, count));
    ASSIGN_OR_RETURN(OpenAiReply reply, OpenAiReply::read(fields, "text_completion", call, model));
    ASSIGN_OR_RETURN(Prompts prompts, read_prompts(fields, count, model));
    Generation generation{.jobs_per_prompt = static_cast<size_t>(count), .nonce = call.nonce};
    for (auto& prompt : prompts) {
      for (GenerationJob& job : make_jobs(std::move(prompt), params, count, model)) {
        generation.jobs.push_back(std::move(job));
      }
    }
    return std::unique_ptr<Exchange>(std::make_unique<CompletionExchange>(
        std::move(generation), std::move(reply), params.n_logprobs.has_value(), model, sink));
  }
};

}  // namespace

const Endpoint& completions() {
  static const Completions endpoint;
  return endpoint;
}

}  // namespace strata::server
