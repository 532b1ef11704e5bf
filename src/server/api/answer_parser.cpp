#include "server/api/answer_parser.h"

#include <utility>

namespace strata::server {

AnswerParser::AnswerParser(const AnswerStyle& style) : style_(style), in_reasoning_(style.reasoning_opened) {
  if (style.reasoning != nullptr) splitter_ = style.reasoning->make(*style.reasoning, style.reasoning_opened);
  if (style.dialect != nullptr) calls_ = style.dialect->make(*style.tools);
}

void AnswerParser::push(std::string_view text, AnswerEvents& events) {
  parts_.clear();
  if (splitter_) {
    splitter_->push(text, parts_);
  } else {
    text::add_text(text::TextPart::kAnswer, text, parts_);
  }
  route(events);
}

void AnswerParser::route(AnswerEvents& events) {
  for (const text::TextEvent& part : parts_) {
    AnswerEvents found;
    if (part.part == text::TextPart::kReasoning) {
      if (!std::exchange(in_reasoning_, true)) reasoning_.clear();
      if (calls_) reasoning_ += part.text;
      found.push_back({AnswerEvent::kReasoning, part.text});
    } else {
      in_reasoning_ = false;
      if (calls_) {
        calls_->push(part.text, found);
      } else {
        found.push_back({AnswerEvent::kText, part.text});
      }
    }
    take(found, events);
  }
}

void AnswerParser::take(AnswerEvents& found, AnswerEvents& events) {
  for (AnswerEvent& event : found) {
    if (is_over_) return;
    has_calls_ = has_calls_ || event.kind == AnswerEvent::kCallBegin;
    is_over_ = style_.one_call && event.kind == AnswerEvent::kCallEnd;
    events.push_back(std::move(event));
  }
}

void AnswerParser::flush(bool ended, AnswerEvents& events) {
  if (splitter_) {
    parts_.clear();
    splitter_->flush(parts_);
    route(events);
  }
  if (!calls_) return;
  AnswerEvents found;
  calls_->flush(ended, found);
  take(found, events);
  if (in_reasoning_ && ended) recover_calls(events);
}

void AnswerParser::recover_calls(AnswerEvents& events) {
  const std::unique_ptr<ToolCallParser> parser = style_.dialect->make(*style_.tools);
  AnswerEvents found;
  parser->push(std::exchange(reasoning_, {}), found);
  parser->flush(true, found);
  AnswerEvents call;
  for (AnswerEvent& event : found) {
    if (event.kind == AnswerEvent::kText) continue;
    if (event.kind == AnswerEvent::kCallBegin) call.clear();
    call.push_back(std::move(event));
    if (call.back().kind == AnswerEvent::kCallEnd) take(call, events), call.clear();
  }
}

}  // namespace strata::server
