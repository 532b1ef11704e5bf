#include "server/clients/scripted_generator.h"

#include <chrono>

#include "text/detokenizer.h"
#include "text/stop.h"

namespace strata::server {

struct ScriptedGenerator::Job {
  std::shared_ptr<engine::RequestHandle> handle;
  engine::RequestListener* listener;
  engine::RequestParams params;
  ScriptedAnswer answer;
  text::StopStrings stops;
  text::StreamDecoder decoder{text::InvalidBytes::kReplace};
  engine::RequestResult result = {};
};

ScriptedGenerator::ScriptedGenerator(const std::string& chat_template, Choose choose) : choose_(std::move(choose)) {
  files_.add("<|im_start|>", text::TokenType::kControl);
  const int32_t end = files_.add("<|im_end|>", text::TokenType::kControl);
  files_.more_keys = [&](gguf::Writer& writer) {
    writer.set_string("tokenizer.chat_template", chat_template);
    writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end));
  };
  const auto opened = files_.open();
  tokenizer_ = text::Tokenizer::load(*opened).value();
  template_ = text::ChatTemplate::load(*opened, *tokenizer_).value();
  model_.id = "scripted";
  model_.tokenizer = tokenizer_.get();
  model_.chat_template = template_.get();
  model_.context = 8192;
  find_styles(model_);
  thread_.emplace([this] { run(); });
}

ScriptedGenerator::~ScriptedGenerator() {
  {
    const LockGuard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  thread_->join();
}

Result<std::shared_ptr<engine::RequestHandle>> ScriptedGenerator::submit(const GenerationJob& job,
                                                                         engine::RequestListener& listener) {
  ASSIGN_OR_RETURN(text::StopStrings stops, text::StopStrings::create(job.params.stops));
  auto handle = std::make_shared<engine::RequestHandle>();
  auto submitted = std::make_unique<Job>(Job{.handle = handle,
                                             .listener = &listener,
                                             .params = job.params,
                                             .answer = choose_(tokenizer_->decode(job.prompt, true)),
                                             .stops = std::move(stops)});
  submitted->result.prompt_tokens = static_cast<int64_t>(job.prompt.size());
  const LockGuard lock(mutex_);
  arrived_.push_back(std::move(submitted));
  wake_.notify_all();
  return handle;
}

void ScriptedGenerator::run() {
  for (;;) {
    mutex_.lock();
    while (!stop_ && arrived_.empty() && running_.empty()) wake_.wait(mutex_);
    const bool stopping = stop_;
    for (auto& job : arrived_) running_.push_back(std::move(job));
    arrived_.clear();
    mutex_.unlock();
    if (stopping) {
      for (const auto& job : running_) finish(*job, engine::Finish::kCancelled);
      return;
    }
    std::erase_if(running_, [&](const auto& job) { return !step(*job); });
  }
}

// False at the end.
bool ScriptedGenerator::step(Job& job) {
  if (job.handle->cancelled()) {
    cancelled_++;
    finish(job, engine::Finish::kCancelled);
    return false;
  }
  const auto n = static_cast<size_t>(job.result.answer_tokens);
  if (!job.answer.endless && n == job.answer.text.size()) {
    if (job.answer.fails) job.result.error = Error{ErrorCode::kInternal, "as the script says"};
    finish(job, job.answer.fails ? engine::Finish::kFailed : engine::Finish::kEndOfText);
    return false;
  }
  if (job.answer.endless) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int32_t id = static_cast<unsigned char>(job.answer.text[n % job.answer.text.size()]);
  job.result.answer_tokens++;
  text::Logprobs logprobs{.chosen = {id, -0.25f}, .top = {}};
  for (int i = 0; i < job.params.n_logprobs.value_or(0); ++i) logprobs.top.push_back({id ^ i, -0.25f - i});
  job.listener->on_token(id, job.params.n_logprobs ? &logprobs : nullptr);
  const std::string text = job.stops.push(job.decoder.push(tokenizer_->piece(id, false)));
  if (!text.empty()) job.listener->on_text(text);
  const bool at_limit = job.params.max_tokens && job.result.answer_tokens >= *job.params.max_tokens;
  if (!job.stops.matched() && !at_limit) return true;
  finish(job, job.stops.matched() ? engine::Finish::kStopString : engine::Finish::kMaxTokens);
  return false;
}

void ScriptedGenerator::finish(Job& job, engine::Finish reason) {
  const std::string text = job.stops.push(job.decoder.flush()) + job.stops.flush();
  if (reason == engine::Finish::kStopString) job.result.stop = job.stops.matched();
  if (!text.empty()) job.listener->on_text(text);
  job.result.finish = reason;
  job.listener->on_finish(job.result);
}

}  // namespace strata::server
