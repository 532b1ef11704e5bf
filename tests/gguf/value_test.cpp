// Typed access to metadata: ranges, kinds, and messages that name file and key.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gguf/gguf_builder.h"
#include "gguf/support.h"

namespace strata::test {
namespace {

using gguf::Value;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A model with one entry "k", and that entry's value.
struct OneValue {
  explicit OneValue(const GgufBuilder& builder) : opened(open_bytes(builder.bytes())) {}
  const gguf::Model& model() const { return **opened; }
  const Value& value() const { return *model().find("k"); }
  OpenResult opened;
};

// What each accessor answers; nullopt: an error.
struct Row {
  const char* name;
  GgufBuilder builder;
  std::optional<int64_t> as_int;
  std::optional<uint64_t> as_uint;
  std::optional<double> as_float;
  std::optional<bool> as_bool;
  std::optional<std::string> as_string;
};

template <class T, class Wanted>
void expect_answer(const Result<T>& result, const std::optional<Wanted>& wanted) {
  ASSERT_EQ(result.ok(), wanted.has_value());
  if (wanted) {
    EXPECT_EQ(*result, *wanted);
  } else {
    EXPECT_EQ(result.error().code, ErrorCode::kBadInput);
    EXPECT_FALSE(result.error().message.empty());
  }
}

TEST(ValueTest, EveryTypeAnswersWhatItHolds) {
  constexpr auto none = std::nullopt;
  const auto with = [](auto add) {
    GgufBuilder builder;
    add(builder);
    return builder;
  };
  const Row rows[] = {
      {"u8", with([](auto& f) { f.u8("k", 255); }), 255, 255, 255, none, none},
      {"i8", with([](auto& f) { f.i8("k", -128); }), -128, none, -128, none, none},
      {"u16", with([](auto& f) { f.u16("k", 65535); }), 65535, 65535, 65535, none, none},
      {"i16", with([](auto& f) { f.i16("k", -2); }), -2, none, -2, none, none},
      {"u32", with([](auto& f) { f.u32("k", 4294967295u); }), 4294967295, 4294967295, 4294967295., none, none},
      {"i32", with([](auto& f) { f.i32("k", -3); }), -3, none, -3, none, none},
      {"u64", with([](auto& f) { f.u64("k", 1); }), 1, 1, 1, true, none},
      {"u64 max", with([](auto& f) { f.u64("k", UINT64_MAX); }), none, UINT64_MAX, 0x1p64, none, none},
      {"u64 above i64", with([](auto& f) { f.u64("k", uint64_t{1} << 63); }),
       none, uint64_t{1} << 63, 0x1p63, none, none},
      {"u64 as i64", with([](auto& f) { f.u64("k", INT64_MAX); }), INT64_MAX, INT64_MAX, 0x1p63, none, none},
      {"i64", with([](auto& f) { f.i64("k", INT64_MIN); }), INT64_MIN, none, -0x1p63, none, none},
      {"f32", with([](auto& f) { f.f32("k", 1.5f); }), none, none, 1.5, none, none},
      {"f64", with([](auto& f) { f.f64("k", 0.1); }), none, none, 0.1, none, none},
      {"bool", with([](auto& f) { f.boolean("k", 1); }), 1, 1, none, true, none},
      {"false", with([](auto& f) { f.boolean("k", 0); }), 0, 0, none, false, none},
      {"zero", with([](auto& f) { f.u32("k", 0); }), 0, 0, 0, false, none},
      {"string", with([](auto& f) { f.string("k", "1"); }), none, none, none, none, "1"},
      {"string with NUL", with([](auto& f) { f.string("k", std::string("a\0b", 3)); }), none, none, none, none,
       std::string("a\0b", 3)},
      {"empty string", with([](auto& f) { f.string("k", ""); }), none, none, none, none, ""},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const OneValue one(row.builder);
    ASSERT_TRUE(one.opened.ok()) << one.opened.error().message;
    EXPECT_FALSE(one.value().is_array());
    EXPECT_EQ(one.value().element_type(), one.value().type());
    EXPECT_EQ(one.value().count(), 1u);
    expect_answer(one.value().as_int(), row.as_int);
    expect_answer(one.value().as_uint(), row.as_uint);
    expect_answer(one.value().as_float(), row.as_float);
    expect_answer(one.value().as_bool(), row.as_bool);
    expect_answer(one.value().as_string(), row.as_string);
    EXPECT_FALSE(one.value().as_int(1).ok());
    EXPECT_FALSE(one.value().strings().ok());
  }
}

TEST(ValueTest, ArraysAnswerByElement) {
  GgufBuilder builder;
  builder.array("k", 5, 3, ByteString().u32(7).u32(0xffffffff).u32(9));
  const OneValue one(builder);
  ASSERT_TRUE(one.opened.ok());
  EXPECT_TRUE(one.value().is_array());
  EXPECT_EQ(one.value().count(), 3u);
  EXPECT_EQ(one.value().as_int(0).value(), 7);
  EXPECT_EQ(one.value().as_int(1).value(), -1);
  EXPECT_EQ(one.value().as_int(2).value(), 9);
  EXPECT_EQ(one.value().as_int(3).error().message, "has 3 elements, no element 3");
  EXPECT_EQ(one.value().as_string(0).error().message, "is an array of int32, not a string");
  EXPECT_FALSE(one.value().as_int(uint64_t{1} << 63).ok());
  EXPECT_EQ(one.value().encoded().size(), 12u);
}

TEST(ValueTest, StringArraysAreViews) {
  const std::vector<std::string> words = {"", "a", std::string("x\0y", 3), "\xff\xfe", std::string(300, 'z')};
  GgufBuilder builder;
  builder.strings("k", words);
  const OneValue one(builder);
  ASSERT_TRUE(one.opened.ok());
  const auto strings = one.value().strings();
  ASSERT_TRUE(strings.ok());
  ASSERT_EQ(strings->size(), words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ((*strings)[i], words[i]);
    EXPECT_EQ(one.value().as_string(i).value(), words[i]);
  }
  EXPECT_FALSE(one.value().as_string(words.size()).ok());
  EXPECT_EQ(one.value().encoded().size(), 5 * 8 + 0u + 1 + 3 + 2 + 300);
}

TEST(ValueTest, EmptyArraysHaveNoElements) {
  for (uint32_t type = 0; type < 13; ++type) {
    if (type == 9) continue;
    GgufBuilder builder;
    builder.array("k", type, 0, {});
    const OneValue one(builder);
    ASSERT_TRUE(one.opened.ok()) << type;
    EXPECT_EQ(one.value().count(), 0u);
    EXPECT_TRUE(one.value().encoded().empty());
    EXPECT_FALSE(one.value().as_int().ok());
    EXPECT_FALSE(one.value().as_float().ok());
    EXPECT_FALSE(one.value().as_string().ok());
    EXPECT_EQ(one.value().strings().ok(), type == 8);
  }
}

// The look-ups that hyper-parameters are read with (G10, G11, G25): a range, and a message with file and key.
TEST(LookUpTest, IntegersAreCheckedAgainstTheirRange) {
  GgufBuilder builder;
  builder.u32("zero", 0).u32("max", 0xffffffff).i32("negative", -1).u64("huge", UINT64_MAX).f32("float", 3.0f);
  builder.string("text", "3").array("list", 4, 1, ByteString().u32(3)).boolean("flag", 1).u16("good", 512);
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok());
  const gguf::Model& model = **opened;
  EXPECT_EQ(model.require_int("good", 1, 512).value(), 512);
  EXPECT_EQ(model.int_or("good", 7, 1, 512).value(), 512);
  EXPECT_EQ(model.int_or("absent", 7, 1, 5).value(), 7);  // the fallback is the caller's, not the file's

  const std::pair<const char*, const char*> rows[] = {
      {"zero", "is 0, must be in 1..512"},       {"max", "is 4294967295, must be in 1..512"},
      {"negative", "is -1, must be in 1..512"},  {"huge", "is 18446744073709551615, more than"},
      {"float", "is a float32, not an integer"}, {"text", "is a string, not an integer"},
      {"list", "is an array of uint32, not a single value"},
  };
  for (const auto& [key, text] : rows) {
    const std::string expected = std::string("/models/m.gguf: key '") + key + "' " + text;
    for (const auto& result : {model.require_int(key, 1, 512), model.int_or(key, 4, 1, 512)}) {
      ASSERT_FALSE(result.ok()) << key;
      EXPECT_EQ(result.error().code, ErrorCode::kBadInput);
      EXPECT_THAT(result.error().message, testing::StartsWith(expected));
    }
  }
  EXPECT_EQ(model.require_int("absent", 1, 512).error().message, "/models/m.gguf: key 'absent' is missing");
}

TEST(LookUpTest, FloatsAreFinite) {
  GgufBuilder builder;
  builder.f32("half", 0.5f).u32("int", 2).f32("nan", NAN).f64("inf", -kInfinity).string("text", "1");
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok());
  const gguf::Model& model = **opened;
  EXPECT_EQ(model.require_float("half").value(), 0.5);
  EXPECT_EQ(model.float_or("int", 1).value(), 2.0);
  EXPECT_EQ(model.float_or("absent", 1.25).value(), 1.25);
  EXPECT_FALSE(model.require_float("absent").ok());
  for (const char* key : {"nan", "inf", "text"}) {
    EXPECT_THAT(model.require_float(key).error().message, testing::HasSubstr(std::string("key '") + key));
    EXPECT_FALSE(model.float_or(key, 1).ok());
  }
}

TEST(LookUpTest, BoolsAndStrings) {
  GgufBuilder builder;
  builder.boolean("yes", 1).u32("one", 1).u32("two", 2).string("text", "abc").f32("float", 1);
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok());
  const gguf::Model& model = **opened;
  EXPECT_TRUE(model.bool_or("yes", false).value());
  EXPECT_TRUE(model.bool_or("one", false).value());
  EXPECT_FALSE(model.bool_or("absent", false).value());
  EXPECT_TRUE(model.bool_or("absent", true).value());
  for (const char* key : {"two", "text", "float"}) EXPECT_FALSE(model.bool_or(key, false).ok()) << key;
  EXPECT_EQ(model.require_string("text").value(), "abc");
  EXPECT_EQ(model.string_or("text", "x").value(), "abc");
  EXPECT_EQ(model.string_or("absent", "x").value(), "x");
  EXPECT_FALSE(model.string_or("yes", "x").ok());
  EXPECT_FALSE(model.require_string("absent").ok());
}

TEST(LookUpTest, KeysAreComparedInFull) {
  GgufBuilder builder;
  builder.u32("a.b", 1);
  const OpenResult opened = open_bytes(builder.bytes());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->find("a"), nullptr);
  EXPECT_EQ((*opened)->find("a.bc"), nullptr);
  EXPECT_EQ((*opened)->find(std::string_view("a.b\0", 4)), nullptr);
  EXPECT_NE((*opened)->find("a.b"), nullptr);
}

}  // namespace
}  // namespace strata::test
