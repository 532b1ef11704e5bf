#include "tidy/source_tree.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace strata::tidy {
namespace {

bool has_suffix(const std::string& path, const std::string& suffix) {
  return path.size() >= suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

SourceFile read_source_file(const std::string& root, const std::string& path) {
  SourceFile file{.path = path, .text = {}, .bytes = std::filesystem::file_size(root + "/" + path)};
  std::ifstream in(root + "/" + path, std::ios::binary);
  std::array<char, 4096> head;
  in.read(head.data(), head.size());
  file.text.assign(head.data(), static_cast<size_t>(in.gcount()));
  // As git decides: a zero byte near the start means that it is no text.
  file.binary = file.text.find('\0') != std::string::npos || has_suffix(path, ".bin") || has_suffix(path, ".f32");
  if (file.binary) {
    file.text.clear();
  } else {
    file.text.append(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return file;
}

}  // namespace

std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  std::array<char, 65536> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.append(buffer.data(), n);
  if (pclose(pipe) != 0) return std::nullopt;
  return output;
}

std::optional<std::vector<SourceFile>> read_source_tree(const std::string& root) {
  // The tests may run as another user than the one who cloned.
  const auto names =
      output_of("git -c safe.directory='*' -C '" + root + "' ls-files -z --cached --others --exclude-standard");
  if (!names) return std::nullopt;
  std::vector<SourceFile> files;
  for (size_t start = 0; start < names->size();) {
    const size_t end = names->find('\0', start);
    const std::string path = names->substr(start, end - start);
    // A file that was removed stays in the index until the next commit.
    if (std::filesystem::is_regular_file(root + "/" + path)) files.push_back(read_source_file(root, path));
    start = end + 1;
  }
  return files;
}

bool has_prefix(const std::string& path, const std::string& prefix) { return path.starts_with(prefix); }

bool is_code(const std::string& path) {
  for (const char* suffix : {".cpp", ".h", ".cu", ".cuh"}) {
    if (has_suffix(path, suffix)) return true;
  }
  return false;
}

bool is_data(const std::string& path) {
  const bool described = has_suffix(path, ".md");
  return !described &&
         (has_prefix(path, "tests/golden/") || has_prefix(path, "tests/fuzz/corpus/") || has_suffix(path, ".json"));
}

}  // namespace strata::tidy
