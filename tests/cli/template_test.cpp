// Goal: template prints exactly the prompt, and refuses what is not a conversation with one line.
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/models.h"
#include "cli/program.h"

namespace strata::test {
namespace {

constexpr const char* kHi = R"([{"role": "user", "content": "Hi"}])";

TEST(Template, PrintsThePromptAndNothingElse) {
  const Outcome outcome = strata({"template", demo_model(), "--chat-template", "chatml", "--messages", "-"}, kHi);
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_EQ(outcome.out, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Template, ReadsFiles) {
  const TempDir dir;
  write_file(dir.file("m.json"), kHi);
  write_file(dir.file("t.json"), R"([{"name": "f"}])");
  write_file(dir.file("c.jinja"), "{{ messages[0].content }} {{ tools|tojson }} {{ add_generation_prompt }}");
  const Outcome outcome = strata({"template", "--messages", dir.file("m.json"), "--tools", dir.file("t.json"),
                                  "--no-generation-prompt", "--chat-template", dir.file("c.jinja")});
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_EQ(outcome.out, R"(Hi [{"name": "f"}] False)");
}

TEST(Template, ReadsPipes) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  std::thread writer([&] { write_file(dir.file("pipe"), kHi); });
  const Outcome outcome = strata({"template", "--chat-template", "chatml", "--messages", dir.file("pipe")});
  writer.join();
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_EQ(outcome.out, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Template, RefusesWhatIsNoConversation) {
  const TempDir dir;
  write_file(dir.file("bad.json"), "[1,");
  const std::vector<std::string> chatml = {"template", "--chat-template", "chatml"};
  const auto with = [&](std::vector<std::string> more, const std::string& input = "") {
    more.insert(more.begin(), chatml.begin(), chatml.end());
    return strata(more, input);
  };
  EXPECT_TRUE(refused(with({}), 2, "--messages is needed"));
  EXPECT_TRUE(refused(with({"--messages", "-"}, ""), 2, "not JSON"));
  EXPECT_TRUE(refused(with({"--messages", dir.file("bad.json")}), 2, "bad.json: not JSON: parse error at line 1"));
  EXPECT_TRUE(refused(with({"--messages", dir.file("none.json")}), 2, "none.json"));
  EXPECT_TRUE(refused(with({"--messages", "-"}, "{}"), 2, "the messages must be an array, not object"));
  EXPECT_TRUE(refused(with({"--messages", "-"}, "[{}]"), 2, "message 0 has no role"));
  EXPECT_TRUE(refused(with({"--messages", "-", "--tools", dir.file("bad.json")}, kHi), 2, "--tools"));
  EXPECT_TRUE(refused(with({"--messages", "-"}, std::string(100'000, '[')), 2, "not JSON"));
  EXPECT_TRUE(refused(with({"--messages", "-"}, std::string(100'000, '[') + std::string(100'000, ']')), 2, "nested"));
  write_file(dir.file("bad.jinja"), "{% nosuch %}");
  EXPECT_TRUE(refused(strata({"template", "--messages", "-", "--chat-template", dir.file("bad.jinja")}, kHi), 2,
                      "chat template, line 1, column 1: unknown statement 'nosuch'"));
}

}  // namespace
}  // namespace strata::test
