// The partition at special tokens against the rule itself, candidate after candidate, with candidates that overlap and
// begin with one another.
#include "text/special_tokens.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using test::TokenizerModel;

using Pieces = std::vector<std::pair<int32_t, std::string>>;

// Splits what is left of `pieces` at each place of `text`, from the left.
Pieces split_at(const Pieces& pieces, int32_t id, const std::string& text) {
  Pieces out;
  for (const auto& [token, rest] : pieces) {
    if (token != kNoToken) {
      out.emplace_back(token, rest);
      continue;
    }
    size_t done = 0;
    for (size_t at = rest.find(text); at != std::string::npos; at = rest.find(text, done)) {
      if (at > done) out.emplace_back(kNoToken, rest.substr(done, at - done));
      out.emplace_back(id, text);
      done = at + text.size();
    }
    if (done < rest.size()) out.emplace_back(kNoToken, rest.substr(done));
  }
  return out;
}

Pieces candidate_after_candidate(const std::vector<std::string>& tokens, int32_t first_id, const std::string& text) {
  std::vector<int32_t> order;
  for (int32_t id = first_id; id < static_cast<int32_t>(tokens.size()); ++id) order.push_back(id);
  const auto length = [&](int32_t id) { return tokens[static_cast<size_t>(id)].size(); };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return length(a) > length(b); });
  Pieces pieces;
  if (!text.empty()) pieces.emplace_back(kNoToken, text);
  for (const int32_t id : order) pieces = split_at(pieces, id, tokens[static_cast<size_t>(id)]);
  return pieces;
}

std::string random_string(Random& random, uint64_t max_length) {
  std::string text;
  for (uint64_t n = 1 + random.below(max_length); n > 0; --n) text.push_back("<a|"[random.below(3)]);
  return text;
}

TEST(SpecialTokens, EqualsCandidateAfterCandidate) {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    TokenizerModel model;
    const uint64_t n_candidates = 1 + random.below(15);
    while (model.tokens.size() < 256 + n_candidates) {
      const std::string text = random_string(random, 6) + "|";
      if (std::find(model.tokens.begin(), model.tokens.end(), text) == model.tokens.end()) {
        model.add(text, TokenType::kControl);
      }
    }
    const auto file = model.open();
    ASSERT_NE(file, nullptr);
    const auto vocabulary = Vocabulary::load(*file);
    ASSERT_TRUE(vocabulary.ok());
    const auto specials = SpecialTokens::create(*vocabulary, true);
    ASSERT_TRUE(specials.ok());
    for (int i = 0; i < 200; ++i) {
      const std::string text = random_string(random, 60);
      Pieces pieces;
      for (const Fragment& f : specials->split(text)) pieces.emplace_back(f.token, f.text);
      ASSERT_EQ(pieces, candidate_after_candidate(model.tokens, 256, text)) << text;
    }
  }
}

TEST(SpecialTokens, NoCandidatesLeaveTheTextWhole) {
  const auto file = TokenizerModel().open();
  ASSERT_NE(file, nullptr);
  const auto vocabulary = Vocabulary::load(*file);
  const auto specials = SpecialTokens::create(*vocabulary, true);
  ASSERT_TRUE(specials.ok());
  EXPECT_TRUE(specials->split("").empty());
  const auto fragments = specials->split("a<b>");
  ASSERT_EQ(fragments.size(), 1u);
  EXPECT_EQ(fragments[0].token, kNoToken);
  EXPECT_EQ(fragments[0].text, "a<b>");
}

}  // namespace
}  // namespace strata::text
