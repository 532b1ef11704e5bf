// From the text of an answer to its parts: reasoning, text, calls of tools.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer_event.h"
#include "server/api/dialects/dialect.h"
#include "text/reasoning.h"

namespace strata::server {

struct AnswerStyle {
  const text::ReasoningStyle* reasoning = nullptr;  // null: none is told apart
  bool reasoning_opened = false;                    // the prompt ends inside reasoning
  const ToolDialect* dialect = nullptr;             // null: no calls are looked for
  const ToolSet* tools = nullptr;                   // outlives the parser; not null where there is a dialect
  bool one_call = false;                            // what follows the first complete call is left out
};

// One per answer; not for several threads at once.
//
// A model may call a tool without ending its reasoning: where the answer ends inside reasoning, complete calls in it
// count as calls (the text stays reasoning, as it was given out already).
class AnswerParser {
 public:
  explicit AnswerParser(const AnswerStyle& style);

  // Takes text in whole characters; appends what is certain by then.
  void push(std::string_view text, AnswerEvents& events);
  // The end of the answer; `ended`: the model ended it by itself.
  void flush(bool ended, AnswerEvents& events);

  // Whether any call has come.
  bool has_calls() const { return has_calls_; }
  // Whether what came last was reasoning, or would be.
  bool in_reasoning() const { return in_reasoning_; }

 private:
  void route(AnswerEvents& events);
  void take(AnswerEvents& found, AnswerEvents& events);
  void recover_calls(AnswerEvents& events);

  const AnswerStyle style_;
  std::unique_ptr<text::ReasoningSplitter> splitter_;
  std::unique_ptr<ToolCallParser> calls_;
  std::vector<text::TextEvent> parts_;
  std::string reasoning_;  // since it began, where calls may have to be recovered from it
  bool in_reasoning_;
  bool has_calls_ = false;
  bool is_over_ = false;  // see AnswerStyle::one_call
};

}  // namespace strata::server
