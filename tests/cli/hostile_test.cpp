// Goal: files that lie about their sizes end every command with one line and exit code 2.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"
#include "gguf/gguf_builder.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;

void expect_refused_by_all(const std::string& model, const std::string& what) {
  for (const Args& args : {Args{"inspect", model}, Args{"inspect", model, "--json"}, Args{"tokenize", model},
                           Args{"detokenize", model}, Args{"run", model, "Once"},
                           Args{"eval", "logprobs", model, "--ids-file", "-", "--out", model + ".f32"}}) {
    EXPECT_TRUE(refused(strata(args, "1"), 2, "")) << what << ", " << args[0];
  }
}

std::string as_text(const ByteString& bytes) {
  return {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.size()};
}

ByteString header(uint64_t n_tensors, uint64_t n_entries) {
  ByteString bytes;
  bytes.text("GGUF").u32(3).u64(n_tensors).u64(n_entries);
  return bytes;
}

TEST(Hostile, HeadersThatLie) {
  constexpr uint64_t kHuge = ~uint64_t{0};
  ByteString version;
  version.text("GGUF").u32(77).u64(0).u64(0);
  ByteString key_length = header(0, 1);
  key_length.u64(kHuge).text("key");
  ByteString array = header(0, 1);
  array.string("a").u32(9).u32(4).u64(kHuge);
  ByteString nested = header(0, 1);
  nested.string("a").u32(9);
  for (int i = 0; i < 1000; i++) nested.u32(9).u64(1);
  ByteString value_type = header(0, 1);
  value_type.string("a").u32(99).u32(0);
  ByteString tensor = header(1, 0);
  tensor.string("t").u32(4).u64(kHuge).u64(kHuge).u64(kHuge).u64(kHuge).u32(0).u64(0);
  ByteString tensor_type = header(1, 0);
  tensor_type.string("t").u32(1).u64(32).u32(4711).u64(0);
  ByteString nothing = header(0, 0);
  const struct {
    const char* what;
    const ByteString& bytes;
  } files[] = {
      {"version", version},          {"tensor count", header(kHuge, 0)}, {"entry count", header(0, kHuge)},
      {"key length", key_length},    {"array count", array},             {"nested arrays", nested},
      {"value type", value_type},    {"tensor size", tensor},            {"tensor type", tensor_type},
  };
  const TempDir dir;
  for (const auto& file : files) {
    write_file(dir.file("m.gguf"), as_text(file.bytes));
    expect_refused_by_all(dir.file("m.gguf"), file.what);
  }
  // Well formed, but nothing to compute with.
  write_file(dir.file("m.gguf"), as_text(nothing));
  EXPECT_TRUE(refused(strata({"run", dir.file("m.gguf"), "Once"}), 2, ""));
}

TEST(Hostile, FilesThatEndEarly) {
  const TempDir dir;
  const std::string whole = read_file(tiny_model());
  for (const size_t size : {size_t{0}, size_t{3}, size_t{4}, size_t{23}, size_t{24}, size_t{100}, size_t{3000},
                            whole.size() / 2, whole.size() - 33}) {
    write_file(dir.file("m.gguf"), whole.substr(0, size));
    expect_refused_by_all(dir.file("m.gguf"), std::to_string(size) + " bytes");
  }
}

TEST(Hostile, NumbersThatCannotBe) {
  const TempDir dir;
  const std::string whole = read_file(tiny_model());
  for (const char* key : {"block_count", "embedding_length", "attention.head_count", "expert_count",
                          "expert_used_count", "attention.key_length"}) {
    for (const uint32_t value : {0u, 0xffffffffu, 0x7fffffffu}) {
      write_file(dir.file("m.gguf"), with_u32(whole, "qwen3moe." + std::string(key), value));
      EXPECT_TRUE(refused(strata({"run", dir.file("m.gguf"), "Once"}), 2, "")) << key << " " << value;
      EXPECT_EQ(strata({"inspect", dir.file("m.gguf")}).exit_code, 0) << key << " " << value;
    }
  }
}

}  // namespace
}  // namespace strata::test
