// The engine against an independent one, a JavaScript library from npm, with the templates of published models, which
// come from npm too, and the built-in ones: at least 150 conversations each, byte for byte, refusals included.
// oracle/render.mjs says what the library is given and where it is mended.
//
// Where the packages can't be had the test is skipped (exit code 77).
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/builtin_templates/builtin.h"
#include "text/jinja_render.h"

namespace strata::text::jinja {
namespace {

constexpr char kSourceDir[] = STRATA_SOURCE_DIR "/tests/text/oracle";
constexpr char kCacheDir[] = STRATA_ORACLE_CACHE_DIR;
constexpr int kSkipped = 77;

// Runs a command and gives what it wrote, without the last newline.
int run(const std::string& command, std::string& output) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  if (output.ends_with('\n')) output.pop_back();
  const int status = ::pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string shell_quoted(const std::string& text) { return "'" + text + "'"; }

void write_builtins(const std::string& path) {
  nlohmann::ordered_json sources;
  for (const BuiltinTemplate* builtin : builtin_templates()) sources[builtin->name] = builtin->source;
  std::ofstream(path) << sources;
}

TEST(JinjaOracle, RendersWhatTheOracleRenders) {
  std::string node;
  const int fetched = run(shell_quoted(std::string(kSourceDir) + "/fetch.sh") + " " + shell_quoted(kCacheDir), node);
  if (fetched == kSkipped) std::exit(kSkipped);  // fetch.sh has said why
  ASSERT_EQ(fetched, 0);
  const ::strata::test::TempDir directory;
  write_builtins(directory.file("builtins.json"));
  std::string output;
  ASSERT_EQ(run("LC_ALL=C " + shell_quoted(node) + " " + shell_quoted(std::string(kSourceDir) + "/render.mjs") + " " +
                    shell_quoted(kCacheDir) + " " + shell_quoted(directory.file("builtins.json")) + " " +
                    shell_quoted(directory.file("rendered.jsonl")),
                output),
            0);

  struct Count {
    int texts = 0, refusals = 0, different = 0;
  };
  std::map<std::string, Count> counts;
  std::ifstream file(directory.file("rendered.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::ordered_json::parse(line);
    const auto text = test::render(row["template"], row["context"], {"messages", "tools"});
    Count& count = counts[row["name"]];
    const bool refused = row["expected"].is_null();
    ++(refused ? count.refusals : count.texts);
    const bool same = refused ? !text.ok() : text.ok() && text->bytes() == row["expected"].get<std::string>();
    if (same || ++count.different > 2) continue;
    ADD_FAILURE() << row["name"] << " with " << row["context"] << "\noracle: " << row["expected"]
                  << "\nengine: " << (text.ok() ? text->bytes() : text.error().message);
  }
  // Of the seven models' packages, those of gpt-oss and Llama 2 bring no template.
  for (const char* model : {"qwen3", "llama3", "llama3_1", "deepseek_v3", "gemma3"}) {
    EXPECT_TRUE(counts.contains(model));
  }
  EXPECT_EQ(counts.size(), 5 + builtin_templates().size());
  for (const auto& [name, count] : counts) {
    std::printf("%s: %d texts, %d refusals\n", name.c_str(), count.texts, count.refusals);
    EXPECT_GE(count.texts, 60) << name;
    EXPECT_EQ(count.different, 0) << name;
  }
}

}  // namespace
}  // namespace strata::text::jinja
