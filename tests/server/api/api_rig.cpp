#include "server/api/api_rig.h"

#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/stop.h"

namespace strata::server {

const char* const kHermesTemplate = R"({%- if tools -%}<|im_start|>tools
{%- for tool in tools %} {{ tool.function | tojson }}{% endfor -%}<|im_end|>
{% endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.reasoning_content -%}<think>{{ message.reasoning_content }}</think>{%- endif -%}
{{- message.content -}}
{%- for call in message.tool_calls -%}
<tool_call>{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}</tool_call>
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if reasoning_effort -%}[effort {{ reasoning_effort }}]{%- endif -%}
{%- if mood -%}[mood {{ mood }}]{%- endif -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined and not enable_thinking -%}<think></think>{%- endif -%}{%- endif -%})";

const char* const kPlainTemplate =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

Json parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << text;
  return json;
}

std::vector<Json> Reply::data() const {
  std::vector<Json> out;
  for (const SseEvent& event : events) {
    if (event.data != "[DONE]") out.push_back(parse(event.data));
  }
  return out;
}

namespace {

class Recorder final : public ReplySink {
 public:
  explicit Recorder(Reply& reply) : reply_(reply) {}

  void json(int status, std::string body) override {
    EXPECT_FALSE(is_over()) << "two replies";
    reply_.status = status;
    reply_.body = parse(body);
  }
  void error(const ApiError& error, std::string body) override {
    reply_.error = error;
    json(error.http_status, std::move(body));
  }
  void begin_stream() override {
    EXPECT_FALSE(is_over()) << "two replies";
    reply_.streamed = true;
  }
  void event(std::string_view name, std::string_view data) override {
    EXPECT_TRUE(reply_.streamed && !reply_.ended);
    EXPECT_EQ(data.find('\n'), std::string_view::npos);
    reply_.events.push_back({std::string(name), std::string(data)});
  }
  void comment(std::string_view) override { ++reply_.n_comments; }
  void end_stream() override {
    EXPECT_TRUE(reply_.streamed && !reply_.ended);
    reply_.ended = true;
  }

 private:
  bool is_over() const { return reply_.status != 0 || reply_.streamed; }
  Reply& reply_;
};

const Endpoint* find(std::string_view method, std::string_view path) {
  for (const Endpoint* endpoint : endpoints()) {
    if (endpoint->method() == method && endpoint->path() == path) return endpoint;
  }
  ADD_FAILURE() << "no endpoint " << method << " " << path;
  return nullptr;
}

// One answer, as the scheduler gives it out.
class Answerer {
 public:
  Answerer(Exchange& exchange, size_t index, const Script& script, const text::Tokenizer& tokenizer)
      : exchange_(exchange),
        index_(index),
        script_(script),
        tokenizer_(tokenizer),
        params_(exchange.jobs()[index].params),
        stops_(text::StopStrings::create(params_.stops).value()) {}

  // False at the end.
  bool step() {
    if (script_.breaks && result_.answer_tokens == static_cast<int64_t>(script_.answer.size())) {
      exchange_.break_off({.http_status = 500, .type = "server_error", .code = "internal_error", .message = "broken"});
      return false;
    }
    if (result_.answer_tokens == static_cast<int64_t>(script_.answer.size())) return finish(script_.end);
    const int32_t id = static_cast<unsigned char>(script_.answer[static_cast<size_t>(result_.answer_tokens++)]);
    text::Logprobs logprobs{.chosen = {id, -0.5f}, .top = {}};
    for (int i = 0; i < params_.n_logprobs.value_or(0); ++i) logprobs.top.push_back({id + i, -0.5f - i});
    exchange_.on_token(index_, id, params_.n_logprobs ? &logprobs : nullptr);
    const std::string text = stops_.push(decoder_.push(tokenizer_.piece(id, false)));
    if (!text.empty()) exchange_.on_text(index_, text);
    if (stops_.matched()) return finish(engine::Finish::kStopString);
    if (params_.max_tokens && result_.answer_tokens >= *params_.max_tokens) return finish(engine::Finish::kMaxTokens);
    return true;
  }

 private:
  bool finish(engine::Finish reason) {
    const std::string text = stops_.push(decoder_.flush()) + stops_.flush();
    if (reason == engine::Finish::kStopString) result_.stop = stops_.matched();
    if (!text.empty()) exchange_.on_text(index_, text);
    result_.finish = reason;
    result_.error = script_.error;
    result_.prompt_tokens = static_cast<int64_t>(exchange_.jobs()[index_].prompt.size());
    result_.kept_tokens = script_.kept_tokens;
    if (script_.ending) exchange_.on_ending(*script_.ending);
    exchange_.on_finish(index_, result_);
    return false;
  }

  Exchange& exchange_;
  const size_t index_;
  const Script& script_;
  const text::Tokenizer& tokenizer_;
  const engine::RequestParams params_;
  text::StopStrings stops_;
  text::StreamDecoder decoder_{text::InvalidBytes::kReplace};
  engine::RequestResult result_;
};

}  // namespace

ApiRig::ApiRig(const std::string& chat_template) {
  files_.add("<|im_start|>", text::TokenType::kControl);
  const int32_t end = files_.add("<|im_end|>", text::TokenType::kControl);
  files_.more_keys = [&](gguf::Writer& writer) {
    writer.set_string("tokenizer.chat_template", chat_template);
    writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end));
  };
  const auto opened = files_.open();
  tokenizer_ = text::Tokenizer::load(*opened).value();
  template_ = text::ChatTemplate::load(*opened, *tokenizer_).value();
  model_.id = "tiny";
  model_.tokenizer = tokenizer_.get();
  model_.chat_template = template_.get();
  model_.context = 2048;
  model_.created = 1'700'000'000;
  model_.fingerprint = "fp_test";
  find_styles(model_);
}

Reply ApiRig::ask(std::string_view path, const Json& body, const Script& script) {
  return ask_text(path, body.dump(), script);
}

Reply ApiRig::ask_text(std::string_view path, std::string_view body, const Script& script, std::string_view method,
                       std::string_view tail) {
  Reply reply;
  Recorder sink(reply);
  const Endpoint* endpoint = find(method, path);
  if (endpoint == nullptr) return reply;
  auto opened = endpoint->open({.body = body, .tail = tail, .unix_time = 1'800'000'000, .nonce = 42}, model_, sink);
  if (!opened.ok()) {
    sink.error(opened.error(), endpoint->error_body(opened.error()));
    return reply;
  }
  Exchange& exchange = **opened;
  reply.jobs.assign(exchange.jobs().begin(), exchange.jobs().end());
  if (reply.jobs.empty()) return reply;
  reply.prompt = tokenizer_->decode(reply.jobs[0].prompt, true);
  run(exchange, script);
  return reply;
}

void ApiRig::run(Exchange& exchange, const Script& script) {
  exchange.begin();
  exchange.keep_alive();
  std::vector<Answerer> answers;
  for (size_t i = 0; i < exchange.jobs().size(); ++i) answers.emplace_back(exchange, i, script, *tokenizer_);
  std::vector<bool> running(answers.size(), true);
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (running[i]) running[i] = answers[i].step();
      any = any || running[i];
    }
  }
}

Reply ApiRig::refused(std::string_view path, const Json& body, const ApiError& error) {
  Reply reply;
  Recorder sink(reply);
  const std::string text = body.dump();
  auto opened = find("POST", path)->open({.body = text, .tail = {}}, model_, sink);
  EXPECT_TRUE(opened.ok());
  if (opened.ok()) (*opened)->refuse(error);
  return reply;
}

}  // namespace strata::server
