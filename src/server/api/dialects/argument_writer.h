// From arguments that come as texts, one by one, to the JSON object that clients expect.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/api/answer_event.h"
#include "server/api/tool_set.h"
#include "text/pattern_set.h"

namespace strata::server {

// The tool's schema tells strings from other values: strings are given out as they come, others when they are complete.
// Without a schema, what is JSON is taken as that. A value that should be JSON and is not becomes a string.
class ArgumentWriter {
 public:
  // `strips_lines`: a line end right after the opening and right before the closing of a value belongs to the marks.
  ArgumentWriter(const ToolSet& tools, bool strips_lines) : tools_(tools), strips_lines_(strips_lines) {}

  void begin(std::string_view tool, EventWriter& out);
  void begin_value(std::string_view argument, EventWriter& out);
  void value(char byte, EventWriter& out);
  void end_value(EventWriter& out);
  // The next byte of a value that one of these marks ends: which one has, and then the value is ended. `held` keeps the
  // bytes that may be the beginning of a mark.
  std::optional<size_t> value_until(char byte, text::PatternSet& ends, std::string& held, EventWriter& out);
  void end(EventWriter& out);

 private:
  enum class Kind { kString, kStringOrNull, kJson, kUnknown };
  static Kind kind_of(const Json* schema);
  void string_byte(char byte, EventWriter& out);
  std::string whole_value() const;

  const ToolSet& tools_;
  const bool strips_lines_;
  std::string tool_;
  Kind kind_ = Kind::kUnknown;
  bool first_argument_ = true;
  bool at_front_ = true;       // of the value
  bool line_end_held_ = false;  // of a string: it may be the last byte
  std::string value_;          // of other kinds
};

}  // namespace strata::server
