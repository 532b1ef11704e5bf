// Names of split files: STEM-00001-of-00003.gguf. Pure functions on names; nothing here touches a file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata::gguf {

// A file name of the split pattern, as it stands: five digits twice, whatever their values.
struct SplitName {
  std::string stem;  // what stands before "-00001-of-00003.gguf"; may be empty
  int number = 0;    // 1-based in a valid name
  int count = 0;

  // Whether there can be a set with such a file.
  bool valid() const { return number >= 1 && number <= count; }
};

// nullopt for a name that does not have the pattern: a plain file. `file_name` has no directory.
std::optional<SplitName> parse_split_name(std::string_view file_name);

// The name of file `number` (from 1) of a set.
std::string split_file_name(std::string_view stem, int number, int count);

// The name for a file made from `path`, next to it: directory and stem of the source (without ".gguf" and without the
// split pattern) with `suffix` appended. Never has the split pattern, whatever stem and suffix are, so a derived file
// is never taken for a part of its source's set.
std::string derived_name(std::string_view path, std::string_view suffix);

// "dir/" of "dir/name", empty without a directory; and the name.
std::string_view directory_of(std::string_view path);
std::string_view file_name_of(std::string_view path);

}  // namespace strata::gguf
