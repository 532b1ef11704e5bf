#include "cli/models.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/bytes.h"

namespace strata::test {
namespace {

// Where the value of a key starts: its length-prefixed name is followed by the type's number.
size_t value_offset(const std::string& file, const std::string& key) {
  std::string entry(8, '\0');
  store_le(entry.data(), uint64_t{key.size()});
  const size_t at = file.find(entry + key);
  ASSERT(at != std::string::npos);
  return at + entry.size() + key.size() + 4;
}

}  // namespace

std::vector<std::string> golden_models() {
  std::vector<std::string> paths;
  for (const char* folder : {"arch", "models"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(golden_path(folder))) {
      if (entry.path().extension() == ".gguf") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::set<std::string> names_in(const TempDir& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::string with_u32(std::string file, const std::string& key, uint32_t value) {
  store_le(file.data() + value_offset(file, key), value);
  return file;
}

std::string with_bool(std::string file, const std::string& key, bool value) {
  file[value_offset(file, key)] = value ? '\1' : '\0';
  return file;
}

std::string with_text(std::string file, const std::string& from, const std::string& to) {
  ASSERT(from.size() == to.size());
  size_t n = 0;
  for (size_t at = file.find(from); at != std::string::npos; at = file.find(from, at + 1), n++) {
    file.replace(at, from.size(), to);
  }
  ASSERT(n > 0);
  return file;
}

}  // namespace strata::test
