#include "engine/conversation.h"

#include <algorithm>

namespace strata::engine {

Result<Conversation> Conversation::create(Engine& engine) {
  ASSIGN_OR_RETURN(model::SequenceState sequence, engine.make_sequence());
  return Conversation(std::move(sequence), model::keeps_fixed_state(engine.hparams()));
}

Result<int64_t> Conversation::attach(std::span<const int32_t> prompt) {
  ASSERT(!prompt.empty());
  const size_t most = std::min(prompt.size() - 1, ids_.size());
  auto keep = static_cast<int64_t>(
      std::mismatch(ids_.begin(), ids_.begin() + static_cast<int64_t>(most), prompt.begin()).first - ids_.begin());
  while (!sequence_.can_truncate(keep)) keep--;  // 0 always can
  RETURN_IF_ERROR(sequence_.truncate(keep));
  ids_.resize(static_cast<size_t>(keep));
  return keep;
}

Status Conversation::mark() {
  if (!needs_marks_) return {};
  Status marked = sequence_.checkpoint_dropping_oldest();
  if (!marked.ok() && marked.error().code == ErrorCode::kNoMemory) return {};
  return marked;
}

}  // namespace strata::engine
