#include "support/golden.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace strata::test {

std::string golden_path(const std::string& name) { return std::string(STRATA_GOLDEN_DIR) + "/" + name; }

std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    ADD_FAILURE() << "cannot open " << path;
    return {};
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<float> read_f32(const std::string& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TempDir::TempDir() : TempDir(std::filesystem::temp_directory_path().string()) {
  if (path_.empty()) std::abort();
}
TempDir::TempDir(const std::string& where) : path_(where + "/strata-test-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) path_.clear();
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace strata::test
