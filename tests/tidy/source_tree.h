// The files of the repository, as git sees them: tracked ones and new ones that are not ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::tidy {

struct SourceFile {
  std::string path;    // relative to the repository's root, with /
  std::string text;    // empty for binary files
  uint64_t bytes = 0;  // size on disk
  bool binary = false;
};

// Nothing when git is missing or refuses.
std::optional<std::vector<SourceFile>> read_source_tree(const std::string& root);

// What a shell command prints; nothing when it cannot be run or fails.
std::optional<std::string> output_of(const std::string& command);

bool has_prefix(const std::string& path, const std::string& prefix);
// C++ and CUDA sources and headers.
bool is_code(const std::string& path);
// Reference data that tests read. Nobody wrote it line by line, so rules of style don't reach it.
bool is_data(const std::string& path);

}  // namespace strata::tidy
