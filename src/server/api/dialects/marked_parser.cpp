#include "server/api/dialects/marked_parser.h"

#include <utility>

namespace strata::server {
namespace {

std::vector<std::string> texts_of(std::span<const Mark> marks) {
  std::vector<std::string> texts;
  for (const Mark& mark : marks) texts.emplace_back(mark.text);
  return texts;
}

}  // namespace

MarkedParser::MarkedParser(std::span<const Mark> marks, bool hard, MakeReader make_reader)
    : marks_(marks.begin(), marks.end()),
      hard_(hard),
      make_reader_(std::move(make_reader)),
      search_(texts_of(marks)) {}

void MarkedParser::push(std::string_view text, AnswerEvents& events) {
  out_.write_to(events);
  for (const char byte : text) push_byte(byte);
}

void MarkedParser::push_byte(char byte) {
  if (reader_ && !hard_) {
    deliver(byte);
    return;
  }
  held_ += byte;
  const std::optional<size_t> found = search_.advance(byte);
  const size_t n_mark = found ? marks_[*found].text.size() : search_.n_open();
  std::string certain = std::exchange(held_, held_.substr(held_.size() - n_mark));
  certain.resize(certain.size() - n_mark);
  for (const char plain : certain) deliver(plain);
  if (!found) return;
  held_.clear();
  search_.reset();
  on_mark(marks_[*found]);
}

// A byte that belongs to no mark.
void MarkedParser::deliver(char byte) {
  if (!reader_) {
    out_.text({&byte, 1});
    return;
  }
  switch (reader_->push(byte, out_)) {
    case CallReader::Next::kMore: return;
    case CallReader::Next::kDone: reader_.reset(); return;
    case CallReader::Next::kLeave: break;
  }
  const std::string again = reader_->untaken() + byte;
  leave();
  for (const char next : again) {
    if (hard_) {
      deliver(next);
    } else {
      push_byte(next);
    }
  }
}

void MarkedParser::leave() {
  const std::unique_ptr<CallReader> left = std::exchange(reader_, nullptr);
  out_.text(left->raw());
}

void MarkedParser::on_mark(const Mark& mark) {
  bool ends_call = false;
  if (reader_) {
    if (reader_->mark(mark.text, out_)) return;
    reader_->close(true, out_);
    ends_call = reader_->raw().empty();
    leave();
  }
  const bool misplaced = mark.at_start && !out_.at_start() && !out_.after_call();
  if (mark.role == Mark::kOpener && !misplaced) reader_ = make_reader_(mark.text);
  const bool dropped =
      mark.role == Mark::kSilent || (mark.role == Mark::kCloser && (ends_call || out_.after_call()));
  if (!reader_ && !dropped) out_.text(mark.text);
}

void MarkedParser::flush(bool ended, AnswerEvents& events) {
  out_.write_to(events);
  const std::string rest = std::exchange(held_, {});
  search_.reset();
  for (const char byte : rest) deliver(byte);
  if (reader_) {
    reader_->close(ended, out_);
    leave();
  }
  out_.flush();
}

}  // namespace strata::server
