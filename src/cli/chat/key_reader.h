// From the bytes that a terminal sends to the characters that a line editor takes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/result.h"

namespace strata::cli {

inline constexpr size_t kMaxPasteBytes = 1 << 20;

// Escape sequences of keys that the editor knows go through whole; the others, and the answers of a terminal, are
// swallowed whole. Escape and a letter, as the Alt key sends it, go through.
class KeyReader {
 public:
  static constexpr int32_t kEnd = -1;
  // What begins pasted text in terminals that are asked to mark it. The editor gets it and calls read_paste().
  static constexpr const char* kPasteBegin = "\x1b[200~";

  // `next_byte` waits for the next byte; negative at the end.
  explicit KeyReader(std::function<int()> next_byte) : next_byte_(std::move(next_byte)) {}

  // The next character, a code point; kEnd at the end. A byte that is not UTF-8 becomes U+FFFD.
  int32_t next();

  // Pasted text up to its end mark: lines end in \n, control characters but tabs are left out. kBadInput when it is
  // longer than kMaxPasteBytes, and the rest of it is skipped. Ctrl-C in it ends it and is the next key: nobody is kept
  // by an end mark that does not come.
  Result<std::string> read_paste();

  // Whether bytes that are not UTF-8 have come since the last call.
  bool take_invalid() { return std::exchange(invalid_, false); }

 private:
  int32_t character();
  // After an escape: puts a sequence for the editor into ready_, or nothing.
  void read_sequence();
  // These two: whether an escape broke it off.
  bool read_csi();
  bool skip_string();
  void read_ss3();
  void give(std::string_view sequence);

  std::function<int()> next_byte_;
  std::string bytes_;          // of a character that is not whole
  std::deque<int32_t> ready_;  // characters to give next
  bool invalid_ = false;
};

}  // namespace strata::cli
