// Rules of the house that compilers do not know. Each check is a pure function of text, so the tests can show with
// small bad inputs that it bites.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tidy/source_tree.h"

namespace strata::tidy {

struct Finding {
  std::string path;
  int line = 0;  // from 1; 0 when the whole file or tree is meant
  std::string what;
};

// The text with comments, strings and character constants replaced by blanks; line breaks stay where they are.
std::string code_only(std::string_view text);

// Includes of src/ that point to a floor which the including floor may not know, or that are not written from src/.
std::vector<Finding> check_includes(const SourceFile& file);
// Calls and names that have a replacement here.
std::vector<Finding> check_banned(const SourceFile& file);
// Marks of unfinished work.
std::vector<Finding> check_marks(const SourceFile& file);
// Tabs, white space at the end of a line, lines that are too wide.
std::vector<Finding> check_layout(const SourceFile& file);
// Paths that exist on one machine only.
std::vector<Finding> check_foreign_paths(const SourceFile& file);
// Sources under src/, tests/ and bench/ that no CMakeLists.txt names, and that are therefore never built.
std::vector<Finding> check_listed(const std::vector<SourceFile>& files);
// Sources of kernels, experts and engine that are compiled with exceptions. `compile_commands`: the JSON that CMake
// writes, with absolute file names; `root`: the repository.
std::vector<Finding> check_exceptions_off(const std::string& compile_commands, const std::string& root);
// The repository must stay quick to clone.
std::vector<Finding> check_total_size(const std::vector<SourceFile>& files);

}  // namespace strata::tidy
