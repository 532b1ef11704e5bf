// Calls between marks: the frame that the dialects share. Text is searched for marks; behind an opener a CallReader
// follows one call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/api/dialects/dialect.h"
#include "text/pattern_set.h"

namespace strata::server {

// Follows one call, a byte at a time, and gives it out as soon as the name is known. Until then it keeps what it took.
class CallReader {
 public:
  enum class Next {
    kMore,
    kDone,   // the byte was the last of the call
    kLeave,  // the byte is not of the call, nor are the last n_untaken() bytes before it
  };
  virtual ~CallReader() = default;
  virtual Next push(char byte, EventWriter& out) = 0;
  // A hard mark inside the call; false where it ends the call, complete or not.
  virtual bool mark(std::string_view mark, EventWriter& out) {
    static_cast<void>(mark), static_cast<void>(out);
    return false;
  }
  // Nothing more comes: another mark (`ended`), the model's end of the answer (`ended`), or a limit.
  virtual void close(bool ended, EventWriter& out) { static_cast<void>(ended), static_cast<void>(out); }

  // All that was taken so far, which becomes text again if the call comes to nothing; empty once it has begun.
  const std::string& raw() const { return raw_; }
  const std::string& untaken() const { return untaken_; }

 protected:
  explicit CallReader(std::string raw) : raw_(std::move(raw)) {}

  std::string raw_;
  std::string untaken_;  // after kLeave: bytes taken by mistake, to be looked at again; at most some dozens
};

struct Mark {
  enum Role {
    kOpener,
    kInner,   // means something inside calls only
    kCloser,  // goes with the call before it; elsewhere text
    kSilent,  // never text
  };
  std::string_view text;
  Role role;
  bool at_start = false;  // an opener only where nothing but white space or a call comes before it
};

class MarkedParser final : public ToolCallParser {
 public:
  // Null: no call begins here, the mark is text.
  using MakeReader = std::function<std::unique_ptr<CallReader>(std::string_view opener)>;

  // `hard`: marks are control tokens, so they are marks wherever they stand; else a reader sees all bytes of its call.
  MarkedParser(std::span<const Mark> marks, bool hard, MakeReader make_reader);

  void push(std::string_view text, AnswerEvents& events) override;
  void flush(bool ended, AnswerEvents& events) override;

 private:
  void push_byte(char byte);
  void deliver(char byte);
  void on_mark(const Mark& mark);
  void leave();

  const std::vector<Mark> marks_;
  const bool hard_;
  const MakeReader make_reader_;
  text::PatternSet search_;
  std::string held_;  // what may become a mark
  std::unique_ptr<CallReader> reader_;
  EventWriter out_;
};

}  // namespace strata::server
