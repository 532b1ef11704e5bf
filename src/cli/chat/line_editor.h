// Lines that a person types on a terminal, with the usual keys for editing and a history.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace strata::cli {

struct TypedLine {
  enum Kind {
    kText,
    kInterrupt,  // Ctrl-C
    kEnd,        // Ctrl-D on an empty line, or the terminal is gone
    kRefused,    // what was typed or pasted can't be a line
  };
  Kind kind = kEnd;
  std::string text;  // of kText, without its line end; of kRefused, why
};

// Pasted text goes into the line as it is, with its line ends: it is one message, sent by the Enter after it.
//
// Takes stdin and stdout, which are terminals, while it reads; between two reads the terminal is as it was. One at a
// time. Characters are those of UTF-8, whatever the locale.
class LineEditor {
 public:
  static Result<std::unique_ptr<LineEditor>> create();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Lines with text go into the history.
  TypedLine read(const std::string& prompt);

 private:
  struct Parts;
  explicit LineEditor(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace strata::cli
