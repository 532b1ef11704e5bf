// The model files that the tests of the command line use, and changed copies of them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "support/golden.h"

namespace strata::test {

inline std::string demo_model() { return STRATA_MODELS_DIR "/tales-moe-q4_k_m.gguf"; }
// Random weights, 512 tokens, context 2048, no bos in front of prompts.
inline std::string tiny_model() { return golden_path("arch/qwen3moe/model-bf16.gguf"); }
// Every model of tests/golden.
std::vector<std::string> golden_models();

void write_file(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);
// Of everything in a folder.
std::set<std::string> names_in(const TempDir& dir);

// A GGUF file's bytes with the value of a key, a number of 4 bytes or a bool, replaced. The key must be there.
std::string with_u32(std::string file, const std::string& key, uint32_t value);
std::string with_bool(std::string file, const std::string& key, bool value);
// With all occurrences of a text replaced by another of the same length.
std::string with_text(std::string file, const std::string& from, const std::string& to);

}  // namespace strata::test
