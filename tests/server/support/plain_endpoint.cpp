#include "server/support/plain_endpoint.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

namespace strata::server {
namespace {

using Json = nlohmann::json;

class PlainExchange final : public Exchange {
 public:
  PlainExchange(const Json& body, ReplySink& sink)
      : sink_(sink), stream_(body.value("stream", false)), throws_(body.value("throw", false)) {
    GenerationJob job;
    job.prompt.assign(body.value("prompt", size_t{5}), 1);
    job.params.max_tokens = body.value("tokens", int64_t{3});
    jobs_.assign(body.value("n", size_t{1}), job);
    texts_.resize(jobs_.size());
    finishes_.resize(jobs_.size());
    left_ = jobs_.size();
  }

  std::span<const GenerationJob> jobs() const override { return jobs_; }
  void begin() override {
    if (stream_) sink_.begin_stream();
  }
  void keep_alive() override {
    if (stream_) sink_.comment("still here");
  }
  void on_text(size_t job, std::string_view text) override {
    if (throws_) throw std::runtime_error("an exchange that throws");
    texts_[job] += text;
    if (stream_) sink_.event("", text);
  }
  void on_ending(const ApiError& why) override { status_ = why.http_status; }
  void on_finish(size_t job, const engine::RequestResult& result) override {
    finishes_[job] = static_cast<int>(result.finish);
    if (!result.error.ok()) {
      error_ = result.error.error().message;
      if (status_ == 200) status_ = 500;
    }
    if (--left_ > 0) return;
    if (!stream_) {
      sink_.json(status_, Json{{"text", texts_}, {"finish", finishes_}, {"error", error_}}.dump());
      return;
    }
    if (!error_.empty()) sink_.event("error", error_);
    sink_.event("", "[DONE]");
    sink_.end_stream();
  }
  void refuse(const ApiError& error) override { sink_.error(error, openai_error_body(error)); }
  void break_off(const ApiError& error) override {
    if (!stream_) return refuse(error);
    sink_.event("error", error.code);
    sink_.event("", "[DONE]");
    sink_.end_stream();
  }

 private:
  ReplySink& sink_;
  const bool stream_, throws_;
  std::vector<GenerationJob> jobs_;
  std::vector<std::string> texts_;
  std::vector<int> finishes_;
  std::string error_;
  int status_ = 200;
  size_t left_;
};

class Plain final : public Endpoint {
 public:
  std::string_view method() const override { return "POST"; }
  std::string_view path() const override { return "/plain"; }
  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel&, ReplySink& sink) const override {
    const Json body = Json::parse(call.body);  // throws for what is none
    return std::unique_ptr<Exchange>(std::make_unique<PlainExchange>(body, sink));
  }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }
};

class Answered final : public Exchange {
 public:
  std::span<const GenerationJob> jobs() const override { return {}; }
  void on_text(size_t, std::string_view) override {}
  void on_finish(size_t, const engine::RequestResult&) override {}
  void refuse(const ApiError&) override {}
  void break_off(const ApiError&) override {}
};

class Things final : public Endpoint {
 public:
  std::string_view method() const override { return "GET"; }
  std::string_view path() const override { return "/things/{name}"; }
  ApiResult<std::unique_ptr<Exchange>> open(const ApiCall& call, const ServedModel&, ReplySink& sink) const override {
    sink.json(200, Json{{"name", call.tail}}.dump());
    return std::unique_ptr<Exchange>(std::make_unique<Answered>());
  }
  std::string error_body(const ApiError& error) const override { return anthropic_error_body(error); }
};

}  // namespace

std::vector<const Endpoint*> plain_endpoints() {
  static const Plain plain;
  static const Things things;
  return {&plain, &things};
}

}  // namespace strata::server
