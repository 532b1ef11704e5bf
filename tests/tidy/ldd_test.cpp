// The program runs on machines that have none of our packages: all but glibc is linked in.
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tidy/source_tree.h"

namespace strata::tidy {
namespace {

// The libraries in ldd's output, without the rest of their file names: "libm" for "libm.so.6 => ...".
std::vector<std::string> libraries(const std::string& ldd_output) {
  std::vector<std::string> names;
  std::istringstream in(ldd_output);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    const size_t suffix = first.find(".so");
    if (suffix == std::string::npos) continue;
    const size_t slash = first.rfind('/', suffix);
    const size_t start = slash == std::string::npos ? 0 : slash + 1;
    names.push_back(first.substr(start, suffix - start));
  }
  return names;
}

std::vector<std::string> foreign_libraries(const std::string& ldd_output) {
  const std::set<std::string> allowed = {"linux-vdso", "ld-linux-x86-64", "libc", "libm",
                                         "libpthread", "libdl",           "librt"};
  std::vector<std::string> foreign;
  for (const std::string& name : libraries(ldd_output)) {
    if (!allowed.contains(name)) foreign.push_back(name);
  }
  return foreign;
}

TEST(Ldd, ProgramNeedsGlibcOnly) {
  const auto output = output_of("ldd '" STRATA_PROGRAM "'");
  ASSERT_TRUE(output) << "ldd failed on " STRATA_PROGRAM;
  EXPECT_FALSE(libraries(*output).empty()) << *output;
  EXPECT_EQ(foreign_libraries(*output), std::vector<std::string>{}) << *output;
}

TEST(Ldd, FindsForeignLibraries) {
  const std::string glibc =
      "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x2)\n"
      "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x3)\n\t/lib64/ld-linux-x86-64.so.2 (0x4)\n";
  EXPECT_TRUE(foreign_libraries(glibc).empty());
  const std::string more = "\tlibfmt.so.9 => /lib/x86_64-linux-gnu/libfmt.so.9 (0x5)\n\tlibstdc++.so.6 => not found\n";
  EXPECT_EQ(foreign_libraries(glibc + more), (std::vector<std::string>{"libfmt", "libstdc++"}));
}

}  // namespace
}  // namespace strata::tidy
