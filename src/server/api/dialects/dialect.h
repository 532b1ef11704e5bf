// The ways in which models write calls of tools. One file and one registration row each.
//
// A parser is given the answer as it comes, without reasoning, and gives out text and calls. Its events are the same
// however the answer was cut, but for where one text or one call's arguments are cut into events. What does not become
// a call is text, to the last byte but for white space and lone marks next to calls; what is wrong after the name of a
// tool was given out leaves a call whose arguments are as incomplete as the model left them.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "server/api/answer_event.h"
#include "server/api/tool_set.h"
#include "text/tokenizer.h"

namespace strata::server {

// One per answer; not for several threads at once. The work is linear in the text.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;
  // Takes text in whole characters; appends what is certain by then.
  virtual void push(std::string_view text, AnswerEvents& events) = 0;
  // The end of the answer. `ended`: the model ended it by itself, so that a call whose end goes without saying is
  // complete.
  virtual void flush(bool ended, AnswerEvents& events) = 0;
};

struct ToolDialect {
  std::string_view name;
  std::span<const std::string_view> signs;  // all of them, in a chat template, tell the dialect
  std::span<const std::string_view> marks;  // what calls are written with, shown even where they are control tokens
  // `tools` outlives the parser.
  std::unique_ptr<ToolCallParser> (*make)(const ToolSet& tools);
};

std::span<const ToolDialect* const> tool_dialects();

// The first whose signs the template has; null for a template that knows no tools.
const ToolDialect* find_tool_dialect(std::string_view chat_template);

extern const ToolDialect kHarmonyTools;
extern const ToolDialect kDeepSeekTools;
extern const ToolDialect kGlmTools;
extern const ToolDialect kQwenXmlTools;
extern const ToolDialect kHermesTools;
extern const ToolDialect kLlama3Tools;

}  // namespace strata::server
