// An answer as it grows: what streams report piece by piece and what the whole reply is made of are the same thing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer_event.h"

namespace strata::server {

// "call_" and 24 hexadecimal digits: the same for the same arguments. `n`: which of those of one request it is.
std::string make_id(std::string_view prefix, uint64_t nonce, uint64_t n);

struct AnswerPart {
  enum Kind { kReasoning, kText, kCall };
  Kind kind;
  std::string text = {};  // of a call: its arguments, JSON
  std::string name = {};  // of a call
  std::string id = {};    // of a call
  size_t nth = 0;         // of the answer's calls, from 0
  bool complete = false;  // of a call
};

// A piece of an answer, and which part grew by it.
struct AnswerPiece {
  AnswerEvent event;
  size_t part;
  bool is_new;  // the part begins with it
};

class AnswerParts {
 public:
  // `call_prefix`: ids of calls begin so, and are made from `nonce` and their place.
  AnswerParts(std::string_view call_prefix, uint64_t nonce) : call_prefix_(call_prefix), nonce_(nonce) {}

  AnswerPiece add(AnswerEvent event);

  const std::vector<AnswerPart>& parts() const { return parts_; }
  // All parts of a kind, one after the other.
  std::string text_of(AnswerPart::Kind kind) const;

 private:
  std::string_view call_prefix_;
  uint64_t nonce_;
  std::vector<AnswerPart> parts_;
  size_t n_calls_ = 0;
};

}  // namespace strata::server
