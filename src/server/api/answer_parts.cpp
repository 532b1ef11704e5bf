#include "server/api/answer_parts.h"

#include "base/format.h"
#include "base/random.h"

namespace strata::server {
namespace {

AnswerPart::Kind kind_of(AnswerEvent::Kind kind) {
  switch (kind) {
    case AnswerEvent::kReasoning: return AnswerPart::kReasoning;
    case AnswerEvent::kText: return AnswerPart::kText;
    case AnswerEvent::kCallBegin:
    case AnswerEvent::kArguments:
    case AnswerEvent::kCallEnd: break;
  }
  return AnswerPart::kCall;
}

}  // namespace

std::string make_id(std::string_view prefix, uint64_t nonce, uint64_t n) {
  Random random(nonce + n * 0x9E3779B97F4A7C15u);
  const uint64_t high = random.next();
  return format("{}{:016x}{:08x}", prefix, high, random.next() & 0xFFFFFFFFu);
}

AnswerPiece AnswerParts::add(AnswerEvent event) {
  const AnswerPart::Kind kind = kind_of(event.kind);
  const bool begins_call = event.kind == AnswerEvent::kCallBegin;
  const bool is_new = begins_call || parts_.empty() || parts_.back().kind != kind;
  if (is_new) parts_.push_back({.kind = kind});
  AnswerPart& part = parts_.back();
  if (begins_call) {
    part.name = event.text;
    part.id = make_id(call_prefix_, nonce_, parts_.size());
    part.nth = n_calls_++;
  } else {
    part.text += event.text;
  }
  part.complete = event.kind == AnswerEvent::kCallEnd;
  return {std::move(event), parts_.size() - 1, is_new};
}

std::string AnswerParts::text_of(AnswerPart::Kind kind) const {
  std::string text;
  for (const AnswerPart& part : parts_) {
    if (part.kind == kind) text += part.text;
  }
  return text;
}

}  // namespace strata::server
