// Follows one JSON value as a model writes it, byte by byte.
#pragma once

#include <string>

namespace strata::server {

// Only the structure is held against the grammar: brackets, strings, and which bytes may stand outside strings. Line
// ends inside strings, which models write, come out as escapes.
class JsonText {
 public:
  enum class Next {
    kMore,
    kDone,   // the byte was the value's last
    kAfter,  // the value, a number or a word, ended before the byte
    kBad,    // the byte can't stand here
  };
  // Appends the byte to `out` as it should stand there, for kMore and kDone.
  Next push(char byte, std::string& out);

 private:
  Next push_in_string(char byte, std::string& out);

  std::string open_;  // the brackets that are to be closed
  bool in_string_ = false, escaped_ = false, begun_ = false;
};

// `byte` as it stands inside a JSON string; bytes of characters beyond ASCII as they are.
void append_escaped(char byte, std::string& out);

}  // namespace strata::server
