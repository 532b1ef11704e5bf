// Goal: tokenize and detokenize against a peer's ids, and as each other's inverse.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/ids.h"
#include "cli/models.h"
#include "cli/program.h"

namespace strata::test {
namespace {

std::string ids_line(const nlohmann::json& ids) { return cli::ids_text(ids.get<std::vector<int32_t>>()) + "\n"; }

TEST(Tokenize, GivesThePeersIds) {
  const nlohmann::json golden = nlohmann::json::parse(read_file(golden_path("models/tokenizer.json")));
  const std::string model = golden_path("models/moe-a-iq3_s.gguf");
  size_t n = 0;
  for (const nlohmann::json& row : golden) {
    const std::string text = row.at("text");
    const Outcome special = strata({"tokenize", model}, text);
    EXPECT_TRUE(succeeded(special));
    EXPECT_EQ(special.out, ids_line(row.at("ids"))) << text;
    const Outcome plain = strata({"tokenize", "--no-special", model}, text);
    EXPECT_TRUE(succeeded(plain));
    EXPECT_EQ(plain.out, ids_line(row.at("ids_no_special"))) << text;
    n++;
  }
  EXPECT_GT(n, 40u);
}

TEST(Tokenize, DetokenizeIsItsInverse) {
  std::string all_scalars = "tab\t, newline\n\n, \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 <|im_start|>user<|im_end|> ";
  for (char c = 1; c < 127; c++) all_scalars += c;
  for (const std::string& text : {std::string(), std::string("Once upon a time"), std::string("\n"), all_scalars}) {
    const Outcome ids = strata({"tokenize", demo_model()}, text);
    ASSERT_TRUE(succeeded(ids));
    EXPECT_TRUE(ids.out.ends_with('\n'));
    const Outcome back = strata({"detokenize", demo_model()}, ids.out);
    EXPECT_TRUE(succeeded(back));
    EXPECT_EQ(back.out, text);
  }
}

TEST(Tokenize, SpecialTokensAreOneTokenUnlessSwitchedOff) {
  EXPECT_EQ(strata({"tokenize", demo_model()}, "<|im_start|>").out, "1\n");
  EXPECT_NE(strata({"tokenize", demo_model(), "--no-special"}, "<|im_start|>").out, "1\n");
  EXPECT_EQ(strata({"detokenize", demo_model()}, "0 1").out, "<|endoftext|><|im_start|>");
  EXPECT_EQ(strata({"detokenize", demo_model(), "--no-special"}, "0 1").out, "");
  EXPECT_EQ(strata({"tokenize"}, "").out, "\n");
}

TEST(Tokenize, NeverAddsTheBeginningOfAText) {
  const TempDir dir;
  const std::string model = dir.file("bos.gguf");
  write_file(model, with_bool(read_file(golden_path("models/moe-a-iq3_s.gguf")), "tokenizer.ggml.add_bos_token", true));
  const Outcome ids = strata({"tokenize", model}, "a");
  EXPECT_TRUE(succeeded(ids));
  EXPECT_EQ(ids.out, strata({"tokenize", golden_path("models/moe-a-iq3_s.gguf")}, "a").out);
}

TEST(Tokenize, GivesBytesThatAreNotText) {
  // Every single token: bytes come out as they are, also halves of characters.
  const Outcome one = strata({"detokenize", golden_path("models/moe-a-iq3_s.gguf")}, "0 1 2 3");
  EXPECT_TRUE(succeeded(one));
  EXPECT_EQ(one.out, (std::string("\x00\x01\x02\x03", 4)));
}

}  // namespace
}  // namespace strata::test
