#include "server/http/outbox.h"

namespace strata::server::http {

Outbox::Outbox(OutboxOptions options, std::function<void()> wake)
    : options_(std::move(options)), wake_(std::move(wake)), keep_alive_(options_.keep_alive) {}

void Outbox::answer(Answer answer) {
  const LockGuard lock(mutex_);
  if (state_ != State::kEmpty) return;
  status_ = answer.status;
  answer.fields.insert(answer.fields.end(), options_.fields.begin(), options_.fields.end());
  head_ = answer_head(answer, {.keep_alive = keep_alive_, .request_id = options_.request_id});
  if (!options_.head_only) body_ = std::move(answer.body);
  state_ = State::kEnded;
  wake_once();
}

void Outbox::begin_stream() {
  const LockGuard lock(mutex_);
  if (state_ != State::kEmpty) return;
  status_ = 200;
  framing_ = options_.version >= 11 ? Framing::kChunked : Framing::kClose;
  if (framing_ == Framing::kClose) keep_alive_ = false;
  // Proxies would otherwise collect the events.
  Answer answer{.content_type = "text/event-stream", .fields = {{"X-Accel-Buffering", "no"}}};
  answer.fields.insert(answer.fields.end(), options_.fields.begin(), options_.fields.end());
  head_ = answer_head(answer,
                      {.framing = framing_, .keep_alive = keep_alive_, .request_id = options_.request_id});
  state_ = State::kStreaming;
  wake_once();
}

void Outbox::write(std::string_view bytes) {
  const LockGuard lock(mutex_);
  if (state_ != State::kStreaming || overflowed_) return;
  if (body_.size() + bytes.size() > options_.max_pending_bytes) {
    overflowed_ = true;
    body_.clear();
  } else {
    body_ += bytes;
  }
  wake_once();
}

void Outbox::end_stream() {
  const LockGuard lock(mutex_);
  if (state_ != State::kStreaming) return;
  state_ = State::kEnded;
  wake_once();
}

void Outbox::wake_once() {
  if (std::exchange(woken_, true)) return;
  wake_();
}

// What tokens have added since the last call goes out as one chunk.
Outbox::Taken Outbox::take() {
  const LockGuard lock(mutex_);
  woken_ = false;
  Taken taken{.ended = state_ == State::kEnded, .overflowed = overflowed_};
  taken.bytes.swap(head_);
  const bool chunked = framing_ == Framing::kChunked;
  if (!body_.empty()) taken.bytes += chunked ? chunk(body_) : body_;
  body_ = std::string();
  if (taken.ended && chunked) {
    taken.bytes += kLastChunk;
    framing_ = Framing::kLength;  // once
  }
  return taken;
}

void Outbox::client_gone() {
  const LockGuard lock(mutex_);
  state_ = State::kGone;
  head_.clear();
  body_ = std::string();
}

int Outbox::status() const {
  const LockGuard lock(mutex_);
  return status_;
}

bool Outbox::keep_alive() const {
  const LockGuard lock(mutex_);
  return keep_alive_;
}

}  // namespace strata::server::http
