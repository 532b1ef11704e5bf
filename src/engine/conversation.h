// A sequence that several requests continue one after another, and the tokens it holds: a prompt that begins like them
// is computed only from where it differs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace strata::engine {

// Used by one thread at a time; must die before its engine.
class Conversation {
 public:
  // kNoMemory when the engine's sequences are all in use.
  static Result<Conversation> create(Engine& engine);

  // Goes back to the longest prefix of `prompt` that the sequence can keep, at most all but its last token (whose
  // logits are needed), and returns its length.
  Result<int64_t> attach(std::span<const int32_t> prompt);
  // The sequence was advanced by these tokens.
  void extended(std::span<const int32_t> ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }
  // Remembers this place, so that a model with recurrent layers can come back to it; forgets the oldest such place when
  // there is no room, and does nothing when all room is taken by others: that costs time later, and no more. Models
  // that can go back anywhere don't need it.
  Status mark();

  model::SequenceState& sequence() { return sequence_; }
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  Conversation(model::SequenceState sequence, bool needs_marks)
      : sequence_(std::move(sequence)), needs_marks_(needs_marks) {}

  model::SequenceState sequence_;
  bool needs_marks_;
  std::vector<int32_t> ids_;  // [sequence_.n_tokens()]
};

}  // namespace strata::engine
