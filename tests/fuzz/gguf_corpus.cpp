// Writes the seeds of the corpus: gguf_corpus DIRECTORY. Small valid files that reach every part of the reader.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gguf/gguf_builder.h"

namespace strata::test {
namespace {

GgufBuilder every_value_type() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").string("general.type", "model");
  builder.u8("u8", 1).i8("i8", -1).u16("u16", 2).i16("i16", -2).u32("u32", 3).i32("i32", -3).f32("f32", 0.5f);
  builder.boolean("bool", 1).u64("u64", 4).i64("i64", -4).f64("f64", 0.25).strings("strings", {"a", "", "bc"});
  for (uint32_t type = 0; type < 13; ++type) {
    if (type != 9) builder.array("array" + std::to_string(type), type, 0, {});
  }
  builder.array("bools", 7, 2, ByteString().u8(0).u8(1)).array("floats", 6, 1, ByteString().f32(1));
  return builder;
}

GgufBuilder every_tensor_type() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  for (const quant::TypeInfo& type : quant::all_types()) {
    if (type.in_files) builder.tensor({type.name, {type.block_elems, 1}, static_cast<uint32_t>(type.type)});
  }
  return builder;
}

GgufBuilder part(uint16_t index, uint16_t count, int32_t total) {
  GgufBuilder builder;
  if (index == 0) builder.string("general.architecture", "llama");
  builder.split(index, count, total);
  builder.tensor({"t" + std::to_string(index), {4}});
  return builder;
}

std::vector<std::byte> set_of(const std::vector<GgufBuilder>& parts) {
  ByteString out;
  out.u8('S').u8(static_cast<uint8_t>(parts.size() - 1));
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto bytes = parts[i].bytes();
    if (i + 1 < parts.size()) out.u16(static_cast<uint16_t>(bytes.size()));
    out.append(bytes);
  }
  return out.bytes();
}

bool write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

int write_all(const std::string& folder) {
  GgufBuilder example;
  example.string("general.architecture", "llama").tensor({"a", {32, 2}, 8}).tensor({"b", {4}});
  GgufBuilder version_2 = example;
  version_2.version = 2;
  GgufBuilder shapes;
  shapes.set_alignment(64).tensor({"scalar", {}}).tensor({"four", {2, 2, 1, 2}}).tensor({"experts", {32, 2, 3}, 2});
  GgufBuilder old_names;
  old_names.tensor({"blk.0.ffn_up.0.weight", {32, 2}, 8}).tensor({"blk.0.ffn_up.1.weight", {32, 2}, 2});
  GgufBuilder swapped;
  swapped.set_alignment(1).tensor({.name = "a", .ne = {2}, .offset = 8}).tensor({.name = "b", .ne = {2}, .offset = 0});

  const std::pair<const char*, std::vector<std::byte>> seeds[] = {
      {"empty", GgufBuilder().bytes()},
      {"example", example.bytes()},
      {"version_2", version_2.bytes()},
      {"values", every_value_type().bytes()},
      {"types", every_tensor_type().bytes()},
      {"shapes", shapes.bytes()},
      {"old_names", old_names.bytes()},
      {"swapped", swapped.bytes()},
      {"truncated", example.bytes_without_last(40)},
      {"set_of_1", set_of({part(0, 1, 1)})},
      {"set_of_3", set_of({part(0, 3, 3), part(1, 3, 3), part(2, 3, 3)})},
      {"set_mixed", set_of({part(0, 2, 2), part(1, 5, 2)})},
      {"set_same_names", set_of({part(0, 2, 2), part(0, 2, 2)})},
  };
  for (const auto& [name, bytes] : seeds) {
    if (write(folder + "/" + name, bytes)) continue;
    std::fprintf(stderr, "cannot write %s/%s\n", folder.c_str(), name);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace strata::test

int main(int argc, char** argv) {
  if (argc == 2) return strata::test::write_all(argv[1]);
  std::fprintf(stderr, "usage: gguf_corpus DIRECTORY\n");
  return 2;
}
