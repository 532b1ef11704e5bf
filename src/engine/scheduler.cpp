#include "engine/scheduler.h"

#include <algorithm>

#include "base/counted.h"
#include "base/format.h"
#include "text/detokenizer.h"
#include "text/repeat_guard.h"
#include "text/stop.h"

namespace strata::engine {
namespace {

// A prompt gets on by at least this many rows a step, however slow the machine is.
constexpr int64_t kLeastChunkRows = 16;

}  // namespace

struct Scheduler::Request {
  std::shared_ptr<RequestHandle> handle;
  RequestListener* listener;
  RequestParams params;
  std::vector<int32_t> prompt;
  Conversation* conversation;
  std::optional<Conversation> own;  // when no conversation was given
  text::Sampler sampler;
  text::StreamDecoder decoder{text::InvalidBytes::kReplace};
  text::StopStrings stops;
  text::RepeatGuard repetition;
  text::Logprobs logprobs;
  std::unique_ptr<TokenGuide> guide;  // null for none
  int64_t prompt_done = 0;   // rows of the prompt that were computed or kept
  int64_t prompt_begun = 0;  // those in steps on their way included
  int32_t next = -1;        // the answer's token that the next step computes
  int64_t started_ns = 0, answer_started_ns = 0;
  bool finished = false;
  RequestResult result;

  bool in_prompt() const { return prompt_done < static_cast<int64_t>(prompt.size()); }
};

Scheduler::Scheduler(Engine& engine, const text::Tokenizer& tokenizer, const SchedulerOptions& options, Clock& clock)
    : engine_(engine),
      tokenizer_(tokenizer),
      options_(options),
      clock_(clock),
      flights_(static_cast<size_t>(engine.n_parts())) {
  // Steps end early only when nobody wants any of their rows. Those on their way change while none is computed.
  engine_.set_interrupt([this] {
    const auto cancelled = [](const Piece& piece) { return piece.request->handle->cancelled(); };
    for (uint64_t i = n_done_; i < n_begun_; i++) {
      const std::vector<Piece>& pieces = flights_[i % flights_.size()].pieces;
      if (!std::all_of(pieces.begin(), pieces.end(), cancelled)) return false;
    }
    return n_done_ < n_begun_;
  });
}

Scheduler::~Scheduler() { engine_.set_interrupt(nullptr); }

Result<std::shared_ptr<RequestHandle>> Scheduler::submit(Conversation* conversation, std::vector<int32_t> prompt,
                                                         const RequestParams& params, RequestListener& listener) {
  if (prompt.empty()) return Error{ErrorCode::kBadInput, "the prompt is empty; a model continues at least one token"};
  if (static_cast<int64_t>(prompt.size()) > engine_.context()) {
    return Error{ErrorCode::kBadInput,
                 format("the prompt has {}, but the context has room for {}; shorten it or raise --ctx",
                        counted(static_cast<int64_t>(prompt.size()), "token"), engine_.context())};
  }
  for (const int32_t id : prompt) {
    if (id < 0 || id >= engine_.n_vocab()) {
      return Error{ErrorCode::kBadInput, format("token id {} is outside the vocabulary of {}", id, engine_.n_vocab())};
    }
  }
  text::SamplerParams sampling = params.sampling;
  if (params.ignore_eos) {
    for (int32_t id = 0; id < tokenizer_.vocab_size(); id++) {
      if (tokenizer_.is_end_of_generation(id)) sampling.suppress.push_back(id);
    }
  }
  ASSIGN_OR_RETURN(text::Sampler sampler, text::Sampler::create(sampling, static_cast<int32_t>(engine_.n_vocab())));
  ASSIGN_OR_RETURN(text::StopStrings stops, text::StopStrings::create(params.stops));
  if (n_waiting_.load() >= options_.max_queued) {
    return Error{ErrorCode::kNoMemory, format("{} waiting already; try again later",
                                              counted(static_cast<int64_t>(options_.max_queued), "request"))};
  }
  auto handle = std::make_shared<RequestHandle>();
  std::unique_ptr<Request> request(new Request{.handle = handle,
                                               .listener = &listener,
                                               .params = params,
                                               .prompt = std::move(prompt),
                                               .conversation = conversation,
                                               .own = {},
                                               .sampler = std::move(sampler),
                                               .stops = std::move(stops),
                                               .repetition = text::RepeatGuard(params.repeat_stop_tokens),
                                               .logprobs = {},
                                               .guide = params.make_guide ? params.make_guide() : nullptr,
                                               .result = {}});
  const LockGuard lock(mutex_);
  arrivals_.push_back(std::move(request));
  n_waiting_++;
  return handle;
}

// The token loop: schedule, run, publish.
bool Scheduler::step() {
  admit();
  take_cancelled();
  const bool computing = run_steps();
  const bool retired = retire();
  // What still waits after a step without an end waits for a sequence that somebody else holds.
  return computing || retired || !running_.empty();
}

void Scheduler::admit() {
  {
    const LockGuard lock(mutex_);
    while (!arrivals_.empty()) {
      queued_.push_back(std::move(arrivals_.front()));
      arrivals_.pop_front();
    }
  }
  for (auto& request : queued_) {
    if (!request->handle->cancelled() && find_sequence(*request)) start(std::move(request));
  }
  std::erase(queued_, nullptr);
}

// Those that find none stay in their order: all of them ask again in the next step, the oldest first.
bool Scheduler::find_sequence(Request& request) {
  if (request.conversation != nullptr) return true;
  Result<Conversation> own = Conversation::create(engine_);
  if (!own.ok()) return false;
  request.own.emplace(std::move(own).value());
  request.conversation = &*request.own;
  return true;
}

void Scheduler::start(std::unique_ptr<Request> starting) {
  Request& request = *starting;
  running_.push_back(std::move(starting));
  n_waiting_--;
  request.started_ns = clock_.now_ns();
  request.result.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const Result<int64_t> kept = request.conversation->attach(request.prompt);
  if (!kept.ok()) {
    finish(request, Finish::kFailed, kept.error());
    return;
  }
  request.prompt_done = request.prompt_begun = request.result.kept_tokens = *kept;
  for (const int32_t id : request.prompt) request.sampler.accept(id);
}

void Scheduler::take_cancelled() {
  for (const auto& request : running_) {
    if (!request->finished && request->handle->cancelled()) finish(*request, Finish::kCancelled);
  }
  // Those that wait behind others never get a sequence; retire() tells their owners.
  for (auto& request : queued_) {
    if (!request->handle->cancelled()) continue;
    finish(*request, Finish::kCancelled);
    running_.push_back(std::move(request));
    n_waiting_--;
  }
  std::erase(queued_, nullptr);
}

// Rows that prompts may add to this step.
int64_t Scheduler::chunk_rows() const {
  const bool answering =
      std::any_of(running_.begin(), running_.end(), [](const auto& r) { return !r->finished && !r->in_prompt(); });
  if (!answering || prompt_rows_per_ns_ <= 0) return engine_.max_rows();
  const double rows = prompt_rows_per_ns_ * static_cast<double>(options_.max_gap_ms) * 1e6;
  const int64_t most = engine_.max_rows();
  return std::clamp(static_cast<int64_t>(std::min(rows, 1e9)), std::min(kLeastChunkRows, most), most);
}

// A row for each running answer first, then as much of the prompts as fits, the oldest first.
bool Scheduler::form_step(Flight& flight) {
  flight.pieces.clear();
  int64_t room = engine_.max_rows();
  for (const auto& request : running_) {
    if (request->finished || request->in_prompt()) continue;
    flight.pieces.push_back({request.get(), {&request->next, 1}, 0, true});
    room--;
  }
  int64_t prompt_room = std::min(room, chunk_rows());
  for (const auto& request : running_) {
    if (request->finished || !request->in_prompt() || prompt_room <= 0) continue;
    const auto left = std::span<const int32_t>(request->prompt).subspan(static_cast<size_t>(request->prompt_begun));
    const auto n = std::min(static_cast<int64_t>(left.size()), prompt_room);
    flight.pieces.push_back(
        {request.get(), left.first(static_cast<size_t>(n)), 0, n == static_cast<int64_t>(left.size())});
    request->prompt_begun += n;
    prompt_room -= n;
  }
  int32_t row = 0;
  flight.batch.clear();
  for (Piece& piece : flight.pieces) {
    row += static_cast<int32_t>(piece.ids.size());
    piece.last_row = row - 1;
    flight.batch.push_back({.sequence = &piece.request->conversation->sequence(),
                            .ids = piece.ids,
                            .ends_in_logits = piece.sample});
  }
  flight.started_ns = clock_.now_ns();
  return !flight.pieces.empty();
}

// Rows that need no result of the steps on their way, while nobody waits for something else.
bool Scheduler::may_follow() {
  const auto cancelled = [](const auto& request) { return request->handle->cancelled(); };
  if (flights_.size() == 1 || std::any_of(running_.begin(), running_.end(), cancelled) ||
      std::any_of(queued_.begin(), queued_.end(), cancelled)) {
    return false;
  }
  for (uint64_t i = n_done_; i < n_begun_; i++) {
    for (const Piece& piece : flights_[i % flights_.size()].pieces) {
      if (piece.sample) return false;
    }
  }
  if (std::any_of(running_.begin(), running_.end(), [](const auto& r) { return r->finished || !r->in_prompt(); })) {
    return false;
  }
  const LockGuard lock(mutex_);
  return arrivals_.empty();
}

// Requests whose sequence has failed, whatever became of the others in its steps.
void Scheduler::end_failed() {
  for (const auto& request : running_) {
    if (request->finished) continue;
    const Status& failure = request->conversation->sequence().failure();
    if (!failure.ok()) finish(*request, Finish::kFailed, failure);
  }
}

std::span<const model::BatchRows> Scheduler::next() {
  end_failed();
  if (n_begun_ > 0 && !may_follow()) return {};
  Flight& flight = flights_[n_begun_ % flights_.size()];
  if (!form_step(flight)) return {};
  n_begun_++;
  return flight.batch;
}

// Whether anything was computed, or should have been.
bool Scheduler::run_steps() {
  const bool in_prompt =
      std::any_of(running_.begin(), running_.end(), [](const auto& r) { return !r->finished && r->in_prompt(); });
  n_begun_ = n_done_ = 0;
  const Status status = engine_.steps(*this, in_prompt);
  ASSERT(!status.ok() || n_done_ == n_begun_);
  for (; n_done_ < n_begun_; n_done_++) {
    for (const Piece& piece : flights_[n_done_ % flights_.size()].pieces) {
      const bool cancelled = piece.request->handle->cancelled();
      finish(*piece.request, cancelled ? Finish::kCancelled : Finish::kFailed, cancelled ? Status() : status);
    }
  }
  return n_begun_ > 0;
}

Status Scheduler::done() {
  Flight& flight = flights_[n_done_ % flights_.size()];
  end_failed();
  advance_prompts(flight);
  sample_pieces(flight);
  n_done_++;
  return {};
}

void Scheduler::advance_prompts(Flight& flight) {
  const int64_t end_ns = clock_.now_ns();
  int64_t prompt_rows = 0;
  for (const Piece& piece : flight.pieces) {
    Request& request = *piece.request;
    if (!request.conversation->sequence().failure().ok()) continue;
    request.conversation->extended(piece.ids);
    if (!request.in_prompt()) continue;
    const int64_t rows = static_cast<int64_t>(piece.ids.size());
    prompt_rows += rows;
    request.prompt_done += rows;
    request.listener->on_prompt(request.prompt_done, static_cast<int64_t>(request.prompt.size()));
    if (request.in_prompt()) continue;
    request.answer_started_ns = end_ns;
    request.result.prompt_ns = end_ns - request.started_ns;
    if (request.own) continue;  // nobody comes back to it
    if (const Status status = request.conversation->mark(); !status.ok()) finish(request, Finish::kFailed, status);
  }
  if (prompt_rows < kLeastChunkRows || end_ns <= flight.started_ns) return;
  const double rate = static_cast<double>(prompt_rows) / static_cast<double>(end_ns - flight.started_ns);
  prompt_rows_per_ns_ = prompt_rows_per_ns_ <= 0 ? rate : 0.5 * (prompt_rows_per_ns_ + rate);
}

void Scheduler::sample_pieces(const Flight& flight) {
  std::vector<int32_t> rows;
  std::vector<Request*> requests;
  for (const Piece& piece : flight.pieces) {
    if (!piece.sample || piece.request->finished) continue;
    if (piece.request->handle->cancelled()) {
      finish(*piece.request, Finish::kCancelled);
      continue;
    }
    rows.push_back(piece.last_row);
    requests.push_back(piece.request);
  }
  size_t i = 0;
  const Status status = engine_.logits(rows, [&](int64_t, std::span<const float> logits) -> Status {
    take_token(*requests[i++], logits);
    return {};
  });
  if (status.ok()) return;
  for (; i < requests.size(); i++) finish(*requests[i], Finish::kFailed, status);
}

void Scheduler::take_token(Request& request, std::span<const float> logits) {
  if (request.params.max_tokens && request.result.answer_tokens >= *request.params.max_tokens) {
    finish(request, Finish::kMaxTokens);
    return;
  }
  const int32_t guided = request.guide ? request.guide->next() : text::kNoToken;
  const Result<int32_t> id = guided != text::kNoToken ? guided : request.sampler.sample(logits);
  if (!id.ok()) {
    finish(request, Finish::kFailed, id.error());
    return;
  }
  request.sampler.accept(*id);
  if (request.guide) request.guide->accept(*id);
  if (tokenizer_.is_end_of_generation(*id)) {
    finish(request, Finish::kEndOfText);
    return;
  }
  publish(request, *id, logits);
}

void Scheduler::publish(Request& request, int32_t id, std::span<const float> logits) {
  request.result.answer_tokens++;
  if (request.params.n_logprobs) text::log_probabilities(logits, id, *request.params.n_logprobs, request.logprobs);
  request.listener->on_token(id, request.params.n_logprobs ? &request.logprobs : nullptr);
  const auto& shown = request.params.shown_tokens;
  const bool show_control = std::binary_search(shown.begin(), shown.end(), id);
  const std::string text = request.stops.push(request.decoder.push(tokenizer_.piece(id, show_control)));
  if (!text.empty()) request.listener->on_text(text);
  request.next = id;
  if (request.stops.matched()) {
    finish(request, Finish::kStopString);
  } else if (request.params.max_tokens && request.result.answer_tokens >= *request.params.max_tokens) {
    finish(request, Finish::kMaxTokens);
  } else if (request.repetition.push(id)) {
    finish(request, Finish::kRepetition);
  } else if (request.conversation->sequence().n_tokens() >= engine_.context()) {
    finish(request, Finish::kContextFull);
  }
}

void Scheduler::finish(Request& request, Finish reason, Status error) {
  if (request.finished) return;
  request.finished = true;
  request.result.finish = reason;
  request.result.error = std::move(error);
  if (request.answer_started_ns != 0) request.result.answer_ns = clock_.now_ns() - request.answer_started_ns;
  // What was held back in case a character or a stop string would go on.
  std::string text = request.stops.push(request.decoder.flush());
  text += request.stops.flush();
  if (reason == Finish::kStopString) request.result.stop = request.stops.matched();
  if (!text.empty()) request.listener->on_text(text);
}

// Finished requests give their sequences back before their owners hear of it.
bool Scheduler::retire() {
  for (auto& request : running_) {
    if (!request->finished) continue;
    request->own.reset();
    request->listener->on_finish(request->result);
  }
  const bool retired = std::erase_if(running_, [](const auto& request) { return request->finished; }) > 0;
  // Whatever ended the last prompt, what it has borrowed goes back. If it can't, the next request hears of it.
  if (retired && running_.empty() && n_waiting_.load() == 0) static_cast<void>(engine_.end_loan());
  return retired;
}

}  // namespace strata::engine
