// The table of types: ids, names, sizes.
#include "quant/type.h"

#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "quant/golden_types.h"

namespace strata::quant {
namespace {

TEST(TypeTable, KnowsExactlyTheAssignedIds) {
  const std::set<uint32_t> removed = {4, 5, 31, 32, 33, 36, 37, 38};
  for (uint32_t id = 0; id < 100'000; id++) {
    const TypeInfo* found = find_type(id);
    const bool known = id < 43 && removed.count(id) == 0;
    ASSERT_EQ(found != nullptr, known) << id;
    if (known) {
      EXPECT_EQ(static_cast<uint32_t>(found->type), id);
      EXPECT_EQ(&info(found->type), found);
    }
  }
  for (const uint32_t id : {0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) EXPECT_EQ(find_type(id), nullptr);
}

TEST(TypeTable, ListsAllTypesInOrderOfId) {
  ASSERT_EQ(all_types().size(), 35u);
  for (size_t i = 1; i < all_types().size(); i++) EXPECT_LT(all_types()[i - 1].type, all_types()[i].type);
}

TEST(TypeTable, FindsNamesInTheirSpellingOnly) {
  for (const TypeInfo& type : all_types()) {
    ASSERT_NE(find_type(type.name), nullptr) << type.name;
    EXPECT_EQ(find_type(type.name)->type, type.type);
  }
  for (const char* name : {"", "q4_k", "Q4_K ", "Q4_K_M", "Q4_2", "IQ4_NL_4_4"}) EXPECT_EQ(find_type(name), nullptr);
}

TEST(TypeTable, SizesAreThoseOfTheGoldenFiles) {
  for (const TypeInfo* type : test::golden_types()) {
    std::ifstream in(test::golden_path(std::string("quant/") + type->name + ".dot.json"));
    const nlohmann::json header = nlohmann::json::parse(in);
    EXPECT_EQ(header["type"], type->name);
    EXPECT_EQ(header["id"], static_cast<uint32_t>(type->type)) << type->name;
    EXPECT_EQ(header["block_elems"], type->block_elems) << type->name;
    EXPECT_EQ(header["block_bytes"], type->block_bytes) << type->name;
    EXPECT_EQ(header["row_bytes"], row_bytes(type->type, header["row_elems"])) << type->name;
  }
}

TEST(TypeTable, PlainTypesHaveTheirSizesAndNoDecoderBesidesFloats) {
  const struct { Type type; uint32_t bytes; bool decodes; } plain[] = {
      {Type::F32, 4, true}, {Type::F16, 2, true}, {Type::BF16, 2, true}, {Type::F64, 8, false},
      {Type::I8, 1, false}, {Type::I16, 2, false}, {Type::I32, 4, false}, {Type::I64, 8, false}};
  for (const auto& expected : plain) {
    EXPECT_EQ(info(expected.type).block_elems, 1u);
    EXPECT_EQ(info(expected.type).block_bytes, expected.bytes);
    EXPECT_EQ(info(expected.type).decode != nullptr, expected.decodes);
  }
}

TEST(TypeTable, ActivationFormatsAreNotForFiles) {
  for (const TypeInfo& type : all_types()) {
    EXPECT_EQ(type.in_files, type.type != Type::Q8_1 && type.type != Type::Q8_K) << type.name;
  }
}

}  // namespace
}  // namespace strata::quant
