// The repository keeps the rules of the house, and the checks that say so do bite.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tidy/checks.h"

namespace strata::tidy {
namespace {

std::string report(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += "\n" + finding.path + (finding.line > 0 ? ":" + std::to_string(finding.line) : "") + ": " + finding.what;
  }
  return text;
}

std::vector<Finding> in_every_file(const std::vector<SourceFile>& files,
                                   std::vector<Finding> (*check)(const SourceFile&)) {
  std::vector<Finding> all;
  for (const SourceFile& file : files) {
    const std::vector<Finding> findings = check(file);
    all.insert(all.end(), findings.begin(), findings.end());
  }
  return all;
}

// Read once: the checks only look.
class Repository : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(STRATA_SOURCE_DIR "/.git")) return;
    files_ = new std::optional(read_source_tree(STRATA_SOURCE_DIR));
  }
  static void TearDownTestSuite() {
    delete files_;
    files_ = nullptr;
  }
  void SetUp() override {
    if (files_ == nullptr) GTEST_SKIP() << "not a git checkout";
    ASSERT_TRUE(*files_) << "git ls-files failed in " STRATA_SOURCE_DIR;
    ASSERT_GT((*files_)->size(), 100u) << "git lists hardly any file";
  }
  static const std::vector<SourceFile>& files() { return **files_; }
  static void expect_clean(std::vector<Finding> (*check)(const SourceFile&)) {
    const std::vector<Finding> findings = in_every_file(files(), check);
    EXPECT_TRUE(findings.empty()) << report(findings);
  }

 private:
  static inline std::optional<std::vector<SourceFile>>* files_ = nullptr;
};

TEST_F(Repository, IncludesPointDown) { expect_clean(check_includes); }
TEST_F(Repository, UsesNoBannedNames) { expect_clean(check_banned); }
TEST_F(Repository, HasNoUnfinishedMarks) { expect_clean(check_marks); }
TEST_F(Repository, IsLaidOut) { expect_clean(check_layout); }
TEST_F(Repository, NamesNoForeignPaths) { expect_clean(check_foreign_paths); }

TEST_F(Repository, ListsEverySource) {
  const std::vector<Finding> findings = check_listed(files());
  EXPECT_TRUE(findings.empty()) << report(findings);
}

TEST_F(Repository, IsSmall) {
  const std::vector<Finding> findings = check_total_size(files());
  EXPECT_TRUE(findings.empty()) << report(findings);
}

TEST(Build, HotFloorsAreCompiledWithoutExceptions) {
  std::ifstream in(STRATA_BINARY_DIR "/compile_commands.json");
  ASSERT_TRUE(in) << "cannot open " STRATA_BINARY_DIR "/compile_commands.json";
  const std::string commands{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSERT_NE(commands.find("/src/kernels/"), std::string::npos) << "no kernel is compiled at all";
  const std::vector<Finding> findings = check_exceptions_off(commands, STRATA_SOURCE_DIR);
  EXPECT_TRUE(findings.empty()) << report(findings);
}

// The controls: every check finds what it is for, and lets good text pass.

SourceFile file(std::string path, std::string text) {
  const uint64_t bytes = text.size();
  return {.path = std::move(path), .text = std::move(text), .bytes = bytes};
}

// The lines on which a check finds something.
std::vector<int> lines(const std::vector<Finding>& findings) {
  std::vector<int> numbers;
  for (const Finding& finding : findings) numbers.push_back(finding.line);
  return numbers;
}

using Lines = std::vector<int>;

TEST(CodeOnly, BlanksCommentsAndTexts) {
  EXPECT_EQ(code_only("a // b\nc"), "a     \nc");
  EXPECT_EQ(code_only("a /* b\nb */ c"), "a     \n     c");
  EXPECT_EQ(code_only("f(\"x\\\"y\", 'z', '\\'') + 1"), "f(      ,    ,     ) + 1");
  EXPECT_EQ(code_only("f(R\"q(x)\" y)q\", z)"), "f(            , z)");
  EXPECT_EQ(code_only("n = 1'000'000; // x"), "n = 1'000'000;     ");
  EXPECT_EQ(code_only("\"open\nnext"), "     \nnext");
  EXPECT_EQ(code_only("/* open"), "       ");
}

TEST(CheckIncludes, FindsUpwardSidewaysAndRelative) {
  EXPECT_EQ(lines(check_includes(file("src/quant/a.cpp", "#include \"gguf/gguf.h\"\n"))), Lines{1});
  EXPECT_EQ(lines(check_includes(file("src/model/a.h", "#include \"base/log.h\"\n #  include \"text/t.h\"\n"))),
            Lines{2});
  EXPECT_EQ(lines(check_includes(file("src/gguf/a.h", "#include \"kernels/kernels.h\"\n"))), Lines{1});
  EXPECT_EQ(lines(check_includes(file("src/base/a.h", "#include \"support/golden.h\"\n"))), Lines{1});
  EXPECT_EQ(lines(check_includes(file("src/base/a.h", "#include \"log.h\"\n"))), Lines{1});
  EXPECT_EQ(lines(check_includes(file("src/base/a.h", "#include \"../base/log.h\"\n"))), Lines{1});
  EXPECT_EQ(lines(check_includes(file("src/attic/a.h", ""))), Lines{0});
}

TEST(CheckIncludes, LetsDownwardAndOwnPass) {
  const std::string text =
      "#include <vector>\n#include \"engine/engine.h\"\n#include \"text/tokenizer.h\"\n#define X\n";
  EXPECT_EQ(lines(check_includes(file("src/engine/sub/a.cpp", text))), Lines{});
  EXPECT_EQ(lines(check_includes(file("tests/gguf/a.cpp", "#include \"kernels/kernels.h\"\n"))), Lines{});
}

TEST(CheckBanned, FindsNamesInCode) {
  EXPECT_EQ(lines(check_banned(file("src/gguf/a.cpp", "\nauto x = std::getenv(\"X\");\n"))), Lines{2});
  EXPECT_EQ(lines(check_banned(file("src/gguf/a.cpp", "std::cout << 1;\nprintf (\"x\");\nfputs(s, stdout);\n"))),
            (Lines{1, 2, 3}));
  EXPECT_EQ(lines(check_banned(file("tests/gguf/a.cpp", "int x = rand();\nsrand(1);\n"))), (Lines{1, 2}));
  EXPECT_EQ(lines(check_banned(file("src/cli/a.cpp", "#include <regex>\nstd::regex r;\nusing namespace std;\n"))),
            (Lines{1, 2, 3}));
}

TEST(CheckBanned, LetsOthersPass) {
  EXPECT_EQ(lines(check_banned(file("src/base/settings.cpp", "std::getenv(name);\n"))), Lines{});
  EXPECT_EQ(lines(check_banned(file("src/cli/main.cpp", "std::cout << 1;\n"))), Lines{});
  EXPECT_EQ(lines(check_banned(file("src/gguf/a.cpp", "// stdout\nsnprintf(b, n, \"rand()\");\nrng.rand();\n"))),
            Lines{});
  EXPECT_EQ(lines(check_banned(file("src/gguf/a.cpp", "using namespace std::chrono_literals;\nstrand(1);\n"))),
            Lines{});
  EXPECT_EQ(lines(check_banned(file("README.md", "rand()\n"))), Lines{});
}

TEST(CheckMarks, FindsWholeWords) {
  EXPECT_EQ(lines(check_marks(file("a.sh", "# TODO: x\n\nFIXME\n(XXX)\n"))), (Lines{1, 3, 4}));
  EXPECT_EQ(lines(check_marks(file("a.cpp", "IQ2_XXS strata-XXXXXX TODOS\n"))), Lines{});
  EXPECT_EQ(lines(check_marks(file("tests/golden/x.json", "\"XXX\"\n"))), Lines{});
}

TEST(CheckLayout, FindsTabsBlanksAndWideLines) {
  EXPECT_EQ(lines(check_layout(file("a.md", "a\n\tb\nc \n"))), (Lines{2, 3}));
  EXPECT_EQ(lines(check_layout(file("a.md", "a\r\n"))), Lines{1});
  EXPECT_EQ(lines(check_layout(file("src/base/a.h", std::string(121, 'x')))), Lines{1});
  EXPECT_EQ(lines(check_layout(file("src/base/a.h", std::string(120, 'x') + "\n\n"))), Lines{});
  std::string wide;
  for (int i = 0; i < 120; ++i) wide += "\xC3\xA9";  // two bytes, one column
  EXPECT_EQ(lines(check_layout(file("src/base/a.h", wide))), Lines{});
  EXPECT_EQ(lines(check_layout(file("src/quant/codebooks.cpp", std::string(500, 'x')))), Lines{});
  EXPECT_EQ(lines(check_layout(file("README.md", std::string(500, 'x')))), Lines{});
}

TEST(CheckForeignPaths, FindsPathsOfOtherMachines) {
  EXPECT_EQ(lines(check_foreign_paths(file("a.sh", "cd /work/x\n"))), Lines{1});
  EXPECT_EQ(lines(check_foreign_paths(file("a.md", "`shared/x`\n../shared/y\n"))), (Lines{1, 2}));
  EXPECT_EQ(lines(check_foreign_paths(file("a.py", "open('/home/me')\n"))), Lines{1});
  EXPECT_EQ(lines(check_foreign_paths(file("a.sh", "net/work/x unshared/x /usr/share/x\n"))), Lines{});
}

TEST(CheckListed, FindsSourcesThatNobodyBuilds) {
  const SourceFile cmake =
      file("src/base/CMakeLists.txt", "set(x ${CMAKE_CURRENT_SOURCE_DIR}/a.cpp)\nf(b sub/b.cpp) # c.cpp\n");
  const SourceFile above = file("src/CMakeLists.txt", "add_library(x \"quant/../base/d.cpp\")\n");
  const auto findings = check_listed({cmake, above, file("src/base/a.cpp", ""), file("src/base/sub/b.cpp", ""),
                                      file("src/base/c.cpp", ""), file("src/base/d.cpp", ""), file("src/base/e.h", ""),
                                      file("tests/b.cpp", ""), file("scripts/f.cpp", "")});
  ASSERT_EQ(findings.size(), 2u) << report(findings);
  EXPECT_EQ(findings[0].path, "src/base/c.cpp");
  EXPECT_EQ(findings[1].path, "tests/b.cpp");
}

TEST(CheckExceptionsOff, FindsUnitsWithExceptions) {
  const auto command = [](const std::string& path, const std::string& flags) {
    return R"({"file": "/r/)" + path + R"(", "command": "c++ -O2)" + flags + R"( -c x"})";
  };
  const std::string off = " -fno-exceptions", on = " -fexceptions";
  const std::string good = command("src/kernels/a.cpp", off) + "," + command("src/base/b.cpp", "");
  EXPECT_TRUE(check_exceptions_off("[" + good + "]", "/r").empty());
  const std::string bad = command("src/engine/c.cpp", "") + "," + command("src/experts/d.cpp", off + on);
  const auto findings = check_exceptions_off("[" + good + "," + bad + "]", "/r");
  ASSERT_EQ(findings.size(), 2u) << report(findings);
  EXPECT_EQ(findings[0].path, "src/engine/c.cpp");
  EXPECT_EQ(findings[1].path, "src/experts/d.cpp");
  EXPECT_EQ(check_exceptions_off("{", "/r").size(), 1u);
}

TEST(CheckTotalSize, FindsTooMuch) {
  SourceFile big{.path = "big", .text = {}, .bytes = 49'999'999, .binary = true};
  EXPECT_TRUE(check_total_size({big, file("a", "1")}).empty());
  EXPECT_EQ(check_total_size({big, file("a", "12")}).size(), 1u);
}

}  // namespace
}  // namespace strata::tidy
