#include "server/core/pages.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "server/core/sink.h"

namespace strata::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLoadingRetryS = 5;

// Model files bring texts that need not be UTF-8.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

const char* phase_name(GeneratorPhase phase) {
  switch (phase) {
    case GeneratorPhase::kLoading: return "loading";
    case GeneratorPhase::kReady: return "ok";
    case GeneratorPhase::kFailed: return "failed";
    case GeneratorPhase::kStopped: return "stopping";
  }
  return "";
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

http::Answer health(const PageParts& parts) {
  const GeneratorPhase phase = parts.generator.phase();
  Json json = {{"status", phase_name(phase)}};
  if (phase == GeneratorPhase::kReady) return {.body = dump(json)};
  http::Answer answer{.status = 503};
  if (phase == GeneratorPhase::kLoading) {
    const LoadProgress progress = parts.generator.progress();
    json["progress"] = rounded(progress.fraction);
    json["seconds"] = rounded(progress.seconds);
    answer.fields = retry_fields(kLoadingRetryS);
  }
  answer.body = dump(json);
  return answer;
}

Json sampling_json(const text::SamplerParams& sampling) {
  return {{"temperature", sampling.temp},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repeat_penalty", sampling.repeat_penalty},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty}};
}

http::Answer props(const PageParts& parts) {
  const ServedModel* model = parts.generator.model();
  Json json = {{"status", phase_name(parts.generator.phase())}, {"version", parts.version}};
  json["total_slots"] = parts.generator.slots();
  json["max_queue"] = parts.slots.limit() - parts.generator.slots();
  json["max_body_bytes"] = parts.max_body_bytes;
  if (model == nullptr) return {.body = dump(json)};
  json["model"] = model->id;
  json["n_ctx"] = model->context;
  json["engine"] = parts.generator.describe();
  json["default_generation_settings"] = sampling_json(model->sampling);
  json["reasoning"] = model->reasoning == nullptr ? Json() : Json(model->reasoning->name);
  json["chat_template"] = model->chat_template->source();
  json["warnings"] = model->chat_template->warnings();
  return {.body = dump(json)};
}

http::Answer slots(const PageParts& parts) {
  Json json = Json::array();
  for (const SlotState& slot : parts.slots.states(parts.clock.now_ns())) {
    Json row = {{"id", json.size()}, {"is_processing", slot.busy}};
    if (slot.busy) {
      row["state"] = slot.answer_tokens > 0 || slot.prompt_done == slot.prompt_tokens ? "answer" : "prompt";
      row["prompt_tokens"] = slot.prompt_tokens;
      row["prompt_done"] = slot.prompt_done;
      row["answer_tokens"] = slot.answer_tokens;
      row["seconds"] = rounded(static_cast<double>(slot.running_ns) * 1e-9);
    }
    json.push_back(std::move(row));
  }
  return {.body = dump(json)};
}

http::Answer metrics(const PageParts& parts) {
  const ServedModel* model = parts.generator.model();
  const int64_t running = parts.slots.running();
  const MetricsMoment moment{.model = model == nullptr ? "" : model->id,
                             .stats = parts.stats,
                             .running = running,
                             .waiting = std::max<int64_t>(0, parts.slots.admitted() - running),
                             .slots = parts.generator.slots(),
                             .connections = static_cast<int64_t>(parts.connections()),
                             .resident_bytes = process_resident_bytes(),
                             .ready = parts.generator.phase() == GeneratorPhase::kReady};
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = parts.metrics.to_text(moment)};
}

// A probe asks for /health without a key; all it learns is whether to wait.
constexpr Page kPages[] = {
    {"/health", true, health},
    {"/props", false, props},
    {"/slots", false, slots},
    {"/metrics", false, metrics},
};

}  // namespace

std::span<const Page> pages() { return kPages; }

}  // namespace strata::server
