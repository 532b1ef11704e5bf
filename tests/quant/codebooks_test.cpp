// The compiled-in codebooks against published sums and entries.
#include "quant/codebooks.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "quant/sha256.h"

namespace strata::quant {
namespace {

// All values of a table in order: the bytes of its words, value 0 in the lowest byte.
template <class Word, size_t kCount>
std::vector<uint8_t> bytes_of(const Word (&table)[kCount]) {
  std::vector<uint8_t> bytes;
  for (const Word word : table) {
    for (size_t j = 0; j < sizeof(Word); j++) {
      bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(word) >> (8 * j)));
    }
  }
  return bytes;
}

template <class Word>
std::vector<int> entry(Word word) {
  std::vector<int> values;
  for (size_t j = 0; j < sizeof(Word); j++) values.push_back(static_cast<int8_t>(word >> (8 * j)));
  return values;
}

int sum(const std::vector<uint8_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0, [](int s, uint8_t b) { return s + static_cast<int8_t>(b); });
}

TEST(Codebooks, Sha256IsRight) {
  const std::string abc = "abc";
  EXPECT_EQ(test::sha256_hex({abc.begin(), abc.end()}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Codebooks, HaveThePublishedSums) {
  const struct { const char* name; std::vector<uint8_t> bytes; const char* sha256; } tables[] = {
      {"iq4nl", bytes_of(kIq4nl), "61aa47540aa024b5d6ddaa839b84ffe59f3d5a349af5c6c7ffcb5e0474b46163"},
      {"fp4_x2", bytes_of(kFp4X2), "adf76b672d47eb7fc0afd4db132d548d59d3190aa0ad118fdbf569d5fd478f97"},
      {"signs7", bytes_of(kSigns7), "a76742a603f8beca5212ecce0f1f02f11a4887fd2f7c8b15aca0ea3eb3380c31"},
      {"iq2_xxs", bytes_of(kIq2Xxs), "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54"},
      {"iq2_xs", bytes_of(kIq2Xs), "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de"},
      {"iq2_s", bytes_of(kIq2S), "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88"},
      {"iq3_xxs", bytes_of(kIq3Xxs), "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d"},
      {"iq3_s", bytes_of(kIq3S), "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f"},
      {"iq1", bytes_of(kIq1), "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a"},
  };
  for (const auto& table : tables) EXPECT_EQ(test::sha256_hex(table.bytes), table.sha256) << table.name;

  EXPECT_EQ(sum(bytes_of(kIq4nl)), -94);
  EXPECT_EQ(sum(bytes_of(kIq2Xxs)), 38611);
  EXPECT_EQ(sum(bytes_of(kIq2Xs)), 81582);
  EXPECT_EQ(sum(bytes_of(kIq2S)), 167589);
  EXPECT_EQ(sum(bytes_of(kIq3Xxs)), 25592);
  EXPECT_EQ(sum(bytes_of(kIq3S)), 12748);
  EXPECT_EQ(sum(bytes_of(kIq1)), -15);
}

TEST(Codebooks, HaveThePublishedEntries) {
  EXPECT_EQ(entry(kIq2Xxs[100]), (std::vector<int>{8, 25, 8, 8, 8, 43, 25, 8}));
  EXPECT_EQ(entry(kIq2Xs[300]), (std::vector<int>{8, 25, 25, 8, 8, 25, 8, 25}));
  EXPECT_EQ(entry(kIq2S[777]), (std::vector<int>{8, 43, 8, 8, 25, 8, 43, 25}));
  EXPECT_EQ(entry(kIq3Xxs[200]), (std::vector<int>{4, 62, 4, 44}));
  EXPECT_EQ(entry(kIq3S[300]), (std::vector<int>{3, 5, 3, 7}));
  EXPECT_EQ(entry(kIq1[1000]), (std::vector<int>{-1, 0, -1, -1, 0, 0, 0, 0}));
}

TEST(Codebooks, SignBytesHaveEvenParity) {
  for (unsigned s = 0; s < 128; s++) {
    EXPECT_EQ(kSigns7[s] & 127, static_cast<int>(s));
    EXPECT_EQ(__builtin_popcount(kSigns7[s]) % 2, 0) << s;
  }
}

}  // namespace
}  // namespace strata::quant
