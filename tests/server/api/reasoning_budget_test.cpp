// Goal: reasoning ends where its budget does, answers and calls are left alone, and a model that ends by itself is not
// spoken into.
#include <gtest/gtest.h>

#include "server/api/api_rig.h"

namespace strata::server {
namespace {

Json request(int budget) {
  return {{"model", "m"}, {"max_tokens", 1000}, {"tools", parse(R"([{"name": "now", "input_schema": {}}])")},
          {"thinking", {{"type", "enabled"}, {"budget_tokens", budget}}},
          {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
}

// What is written where the model would write `wanted`, a byte a token: what the guide says goes in between, and the
// model goes on where it was.
std::string written(int budget, const std::string& wanted) {
  ApiRig rig(kHermesTemplate);
  const Reply reply = rig.ask("/v1/messages", request(budget));
  const auto guide = reply.jobs.at(0).params.make_guide();
  std::string out;
  for (size_t n = 0; n < wanted.size();) {
    const int32_t forced = guide->next();
    const int32_t id = forced != text::kNoToken ? forced : static_cast<unsigned char>(wanted[n++]);
    out += static_cast<char>(id);
    guide->accept(id);
  }
  return out;
}

TEST(ReasoningBudget, EndsReasoning) {
  EXPECT_EQ(written(4, "<think>abcdefgh"), "<think>abcd\n</think>\n\nefgh");
  EXPECT_EQ(written(100, "<think>abcdefgh</think>x"), "<think>abcdefgh</think>x");
}

TEST(ReasoningBudget, LeavesAnswersAlone) {
  EXPECT_EQ(written(2, "abcdefgh <think>abcdefgh"), "abcdefgh <think>abcdefgh");
  // Ends by itself just before the budget would.
  EXPECT_EQ(written(11, "<think>abc</think>\n\n\n\n\n\nxyz"), "<think>abc</think>\n\n\n\n\n\nxyz");
  EXPECT_EQ(written(4, "<think>abcdef</think>xyz<think>abcdefgh"),
            "<think>abcd\n</think>\n\nef</think>xyz<think>abcdefgh");
}

// K08: a call that has begun inside reasoning stops the count.
TEST(ReasoningBudget, PutsNothingIntoCalls) {
  const std::string call =
      "<think>a<tool_call>{\"name\": \"now\", \"arguments\": {\"x\": \"yyyyyyyyyyyyyyyyyyyyyyyyy\"}}";
  EXPECT_EQ(written(40, call), call);
  EXPECT_NE(written(10, call), call);
}

}  // namespace
}  // namespace strata::server
