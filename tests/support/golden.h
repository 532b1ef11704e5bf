// Reading the golden files of tests/golden: raw bytes, float32 arrays and JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::test {

// Path of a file below tests/golden.
std::string golden_path(const std::string& name);

// The folders of tests/golden/arch.
inline constexpr const char* kGoldenArchs[] = {
    "deepseek2",
    "glm4moe",
    "gpt-oss",
    "llama",
    "olmoe",
    "qwen2moe",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "qwen4exp",
};

// The whole file, or an empty vector after failing the running test.
std::vector<uint8_t> read_bytes(const std::string& path);

// A little-endian float32 array.
std::vector<float> read_f32(const std::string& path);

// A new empty directory that is removed when the object dies.
class TempDir {
 public:
  TempDir();
  // A folder in another one; path() is empty where it can't be made.
  explicit TempDir(const std::string& where);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace strata::test
