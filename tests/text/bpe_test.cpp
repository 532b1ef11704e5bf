// Merging against the plain rule (scan for the lowest rank, merge, repeat), on random vocabularies.
#include "text/bpe.h"

#include <map>

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/tokenizer_model.h"

namespace strata::text {
namespace {

using test::TokenizerModel;

using Ranks = std::map<std::pair<std::string, std::string>, size_t>;

std::vector<std::string> plain_merge(const std::string& word, const Ranks& ranks) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.push_back(std::string(1, c));
  while (true) {
    size_t best = SIZE_MAX, at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best) best = found->second, at = i;
    }
    if (best == SIZE_MAX) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

std::string random_word(Random& random, uint64_t max_length) {
  std::string word;
  for (uint64_t n = 1 + random.below(max_length); n > 0; --n) word.push_back("abc"[random.below(3)]);
  return word;
}

TEST(BpeMerges, EqualsThePlainRule) {
  Random random(7);
  for (int round = 0; round < 60; ++round) {
    TokenizerModel model;
    Ranks ranks;
    for (int i = 0; i < 40; ++i) {
      const std::string left = random_word(random, 3), right = random_word(random, 3);
      ranks.emplace(std::pair(left, right), model.merges.size());  // a pair listed twice keeps its first rank
      model.merge(left, right);
    }
    const auto file = model.open();
    ASSERT_NE(file, nullptr);
    const auto vocabulary = Vocabulary::load(*file);
    ASSERT_TRUE(vocabulary.ok());
    const auto merges = BpeMerges::load(*file, *vocabulary);
    ASSERT_TRUE(merges.ok());
    BpeScratch scratch;
    for (int i = 0; i < 100; ++i) {
      const std::string word = random_word(random, 30);
      std::vector<int32_t> ids;
      ASSERT_TRUE(merges->encode_word(word, scratch, ids).ok());
      std::vector<std::string> texts;
      for (const int32_t id : ids) texts.emplace_back(vocabulary->text(id));
      // Symbols that are no tokens fall apart into bytes; model.merge makes a token of each merge, so there are none.
      ASSERT_EQ(texts, plain_merge(word, ranks)) << word;
    }
  }
}

TEST(BpeMerges, EmptyWordHasNoTokens) {
  const auto file = TokenizerModel().open();
  ASSERT_NE(file, nullptr);
  const auto vocabulary = Vocabulary::load(*file);
  const auto merges = BpeMerges::load(*file, *vocabulary);
  BpeScratch scratch;
  std::vector<int32_t> ids;
  EXPECT_TRUE(merges->encode_word("", scratch, ids).ok());
  EXPECT_TRUE(ids.empty());
}

}  // namespace
}  // namespace strata::text
