// Opening files that exist only in memory, walking models, and checks on error messages.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_sim.h"
#include "gguf/gguf.h"

namespace strata::test {

using OpenResult = Result<std::unique_ptr<gguf::Model>>;

// File name -> bytes, in the folder "/models".
using Files = std::map<std::string, std::vector<std::byte>>;

inline void add_files(MemoryFileSystem& system, const Files& files) {
  for (const auto& [name, bytes] : files) system.add_file("/models/" + name, bytes);
}

inline OpenResult open_files(const Files& files, const std::string& path) {
  MemoryFileSystem system;
  add_files(system, files);
  return gguf::Model::open(path, system);
}

inline OpenResult open_bytes(std::vector<std::byte> bytes) {
  return open_files({{"m.gguf", std::move(bytes)}}, "/models/m.gguf");
}

// A failure with this code whose message is one printable line that holds all the pieces.
inline void expect_error(const OpenResult& result, ErrorCode code, std::initializer_list<std::string_view> pieces) {
  ASSERT_FALSE(result.ok()) << "was accepted";
  const std::string& message = result.error().message;
  EXPECT_EQ(result.error().code, code) << message;
  for (const std::string_view piece : pieces) EXPECT_THAT(message, testing::HasSubstr(std::string(piece)));
  for (const char c : message) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << message;
  EXPECT_LT(message.size(), 1500u);
}

// Reads every value through every accessor and the two ends of every tensor's data; returns how many there were.
size_t walk(const gguf::Model& model);

}  // namespace strata::test
