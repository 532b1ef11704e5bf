#include "text/sampling/dry_breakers.h"

#include <algorithm>

#include "base/format.h"

namespace strata::text {
namespace {

Status check(std::span<const std::string> texts) {
  if (texts.size() > kMaxDryBreakers) {
    return Error{ErrorCode::kBadInput, format("{} DRY sequence breakers are given; the limit is {}", texts.size(),
                                              kMaxDryBreakers)};
  }
  for (const std::string& text : texts) {
    if (!text.empty() && text.size() <= kMaxDryBreakerBytes) continue;
    return Error{ErrorCode::kBadInput, format("a DRY sequence breaker has {} bytes; it must have 1 to {}", text.size(),
                                              kMaxDryBreakerBytes)};
  }
  return {};
}

}  // namespace

std::vector<std::string> default_dry_breakers() { return {"\n", ":", "\"", "*"}; }

Result<std::shared_ptr<const DryBreakers>> DryBreakers::create(const Tokenizer& tokenizer,
                                                               std::span<const std::string> texts) {
  RETURN_IF_ERROR(check(texts));
  // tails[t][n]: how the rest of text t is tokenised after its first n bytes.
  std::vector<std::vector<std::vector<int32_t>>> tails(texts.size());
  for (size_t t = 0; t < texts.size(); ++t) {
    tails[t].emplace_back();
    for (size_t n = 1; n < texts[t].size(); ++n) {
      ASSIGN_OR_RETURN(std::vector<int32_t> tail,
                       tokenizer.encode(std::string_view(texts[t]).substr(n), {.opens = false}));
      tail.resize(std::min(tail.size(), kMaxDryTailTokens));
      tails[t].push_back(std::move(tail));
    }
  }
  std::shared_ptr<DryBreakers> breakers(new DryBreakers);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece(id, true);
    for (size_t t = 0; t < texts.size(); ++t) {
      const std::string_view text = texts[t];
      if (piece.find(text) != std::string::npos) {
        breakers->add(id, {});
        continue;
      }
      for (size_t n = 1; n < text.size(); ++n) {
        if (piece.ends_with(text.substr(0, n))) breakers->add(id, tails[t][n]);
      }
    }
  }
  return std::shared_ptr<const DryBreakers>(std::move(breakers));
}

std::shared_ptr<const DryBreakers> DryBreakers::of_tokens(std::span<const std::vector<int32_t>> sequences) {
  std::shared_ptr<DryBreakers> breakers(new DryBreakers);
  for (const std::vector<int32_t>& sequence : sequences) {
    if (!sequence.empty()) breakers->add(sequence.front(), {sequence.begin() + 1, sequence.end()});
  }
  return breakers;
}

void DryBreakers::add(int32_t head, std::vector<int32_t> tail) {
  auto& of_head = tails_[head];
  if (std::find(of_head.begin(), of_head.end(), tail) == of_head.end()) of_head.push_back(std::move(tail));
}

std::span<const std::vector<int32_t>> DryBreakers::tails(int32_t head) const {
  const auto found = tails_.find(head);
  if (found == tails_.end()) return {};
  return found->second;
}

bool DryBreakers::is_single(int32_t id) const {
  const auto of_head = tails(id);
  return std::any_of(of_head.begin(), of_head.end(), [](const auto& tail) { return tail.empty(); });
}

}  // namespace strata::text
