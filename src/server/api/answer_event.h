// What an answer is made of, piece by piece, in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::server {

struct AnswerEvent {
  enum Kind {
    kReasoning,
    kText,
    kCallBegin,  // text: the name of the tool
    kArguments,  // text: more of the call's arguments, JSON
    kCallEnd,    // the call is complete
  };
  Kind kind;
  std::string text;

  bool operator==(const AnswerEvent&) const = default;
};

using AnswerEvents = std::vector<AnswerEvent>;

// Puts pieces of one kind that follow one another together. White space next to calls goes with them: it is held back
// until it is known what follows.
class EventWriter {
 public:
  // Where events go until the next call of this.
  void write_to(AnswerEvents& events) { events_ = &events; }

  void text(std::string_view piece);
  void begin_call(std::string_view name);
  void arguments(std::string_view piece);
  void end_call();
  // The end of the answer.
  void flush();
  // Whether nothing but white space has followed the last call; false before the first.
  bool after_call() const { return after_call_; }
  // Whether nothing but white space has come yet.
  bool at_start() const { return at_start_; }

 private:
  void append(AnswerEvent::Kind kind, std::string_view piece);

  AnswerEvents* events_ = nullptr;
  std::string space_;
  bool after_call_ = false;
  bool at_start_ = true;
};

}  // namespace strata::server
