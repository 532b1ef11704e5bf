#include "server/api/answer_event.h"

namespace strata::server {

void EventWriter::append(AnswerEvent::Kind kind, std::string_view piece) {
  if (piece.empty()) return;
  if (events_->empty() || events_->back().kind != kind) events_->push_back({kind, {}});
  events_->back().text += piece;
}

void EventWriter::text(std::string_view piece) {
  const size_t last = piece.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) {
    if (!after_call_) space_ += piece;
    return;
  }
  if (after_call_) piece.remove_prefix(piece.find_first_not_of(" \t\r\n"));
  const size_t n_text = piece.find_last_not_of(" \t\r\n") + 1;
  append(AnswerEvent::kText, space_);
  append(AnswerEvent::kText, piece.substr(0, n_text));
  space_ = piece.substr(n_text);
  after_call_ = at_start_ = false;
}

void EventWriter::begin_call(std::string_view name) {
  space_.clear();
  events_->push_back({AnswerEvent::kCallBegin, std::string(name)});
  after_call_ = at_start_ = false;
}

void EventWriter::arguments(std::string_view piece) { append(AnswerEvent::kArguments, piece); }

void EventWriter::end_call() {
  events_->push_back({AnswerEvent::kCallEnd, {}});
  after_call_ = true;
}

void EventWriter::flush() {
  append(AnswerEvent::kText, space_);
  space_.clear();
}

}  // namespace strata::server
