// An exchange without an answer of the model: the reply was given when it was opened.
#pragma once

#include "server/api/endpoint.h"

namespace strata::server {

class Answered final : public Exchange {
 public:
  std::span<const GenerationJob> jobs() const override { return {}; }
  void on_text(size_t, std::string_view) override {}
  void on_finish(size_t, const engine::RequestResult&) override {}
  void refuse(const ApiError&) override {}
  void break_off(const ApiError&) override {}
};

inline std::unique_ptr<Exchange> answered(ReplySink& sink, std::string body) {
  sink.json(200, std::move(body));
  return std::make_unique<Answered>();
}

}  // namespace strata::server
