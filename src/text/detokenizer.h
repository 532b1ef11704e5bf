// Turns the pieces of tokens, as they are sampled, into text that people can be shown: a token may end inside a
// character, and half a character is never given out.
#pragma once

#include <string>
#include <string_view>

namespace strata::text {

enum class InvalidBytes {
  kKeep,     // passed on as they are, for outputs of bytes
  kReplace,  // each becomes U+FFFD, for outputs that must be UTF-8
};

// One per answer; not for several threads at once. What push() and flush() give out, one after the other, is the same
// however the bytes were cut.
class StreamDecoder {
 public:
  explicit StreamDecoder(InvalidBytes invalid) : invalid_(invalid) {}

  // Takes the bytes of a token; gives out all text that is certain by then. At most 3 bytes are held back.
  std::string push(std::string_view bytes);
  // The end of the answer: what was held back can't become a character any more.
  std::string flush();

 private:
  std::string take(std::string_view bytes, bool at_end);

  InvalidBytes invalid_;
  std::string held_;  // the beginning of a character
};

}  // namespace strata::text
