// Opening changed copies of the golden models, and what their refusals have to look like.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_sim.h"
#include "engine/engine.h"
#include "model/model_copy.h"
#include "support/golden.h"

namespace strata::test {

// Golden models whose files have every key that the architectures share.
inline const char* const kArchs[] = {"qwen3moe", "gpt-oss", "qwen3next"};
inline const char* const kCopyPath = "/models/copy.gguf";

// A small engine on one thread, with a budget that no refusal can hide behind.
inline engine::EngineConfig small_config() {
  engine::EngineConfig config;
  config.context = 64;
  config.threads = 1;
  config.chunk = 8;
  config.ram_bytes = 1024 * kGiB;
  config.isa = "scalar";
  config.table = &model::kRamTable;  // copies lie in no file of the system
  return config;
}

// The model opened all the way: container, metadata, tensors.
inline Status open_bytes(std::vector<std::byte> bytes) {
  MemoryFileSystem files;
  files.add_file(kCopyPath, std::move(bytes));
  ASSIGN_OR_RETURN(const auto model, gguf::Model::open(kCopyPath, files));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, engine::Engine::open(*model, small_config(), stats));
  return {};
}
inline Status open_copy(const ModelCopy& copy) { return open_bytes(copy.bytes()); }

// A refusal for a reason that lies in the file: one printable line that names the file and holds the pieces.
inline void expect_refused(const Status& status, const std::vector<std::string>& pieces) {
  if (status.ok()) {
    ADD_FAILURE() << "was accepted";
    return;
  }
  const Error& error = status.error();
  EXPECT_TRUE(error.code == ErrorCode::kBadInput || error.code == ErrorCode::kUnsupported) << error.message;
  EXPECT_THAT(error.message, testing::HasSubstr(kCopyPath));
  for (const std::string& piece : pieces) EXPECT_THAT(error.message, testing::HasSubstr(piece));
  for (const char c : error.message) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << error.message;
  EXPECT_LT(error.message.size(), 600u) << error.message;
}

}  // namespace strata::test
