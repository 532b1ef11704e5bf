#include "gguf/quantize/file_types.h"

#include <algorithm>

#include "base/format.h"

namespace strata::gguf {
namespace {

using quant::Type;

constexpr Rule always(Type type) { return {When::kAlways, type, type}; }

// Every tensor in the base type.
constexpr FileType plain(const char* name, uint32_t number, Type base) {
  return {name, nullptr, number, base, base, always(base), always(base), always(base), false, false};
}

constexpr FileType with_embedding(FileType type, Type embedding) {
  type.embedding = embedding;
  return type;
}

constexpr FileType mix(const char* name, const char* alias, uint32_t number, Type base, Rule attn_v, Rule attn_output,
                       Rule ffn_down, bool eight_experts) {
  return {name, alias, number, base, base, attn_v, attn_output, ffn_down, eight_experts, false};
}

constexpr FileType for_experts(const char* name, const char* alias, uint32_t number, Type base) {
  return {name, alias, number, base, base, always(base), always(base), always(base), false, true};
}

constexpr FileType kFileTypes[] = {
    plain("F32", 0, Type::F32),
    plain("F16", 1, Type::F16),
    plain("BF16", 32, Type::BF16),
    plain("Q4_0", 2, Type::Q4_0),
    plain("Q4_1", 3, Type::Q4_1),
    plain("Q5_0", 8, Type::Q5_0),
    plain("Q5_1", 9, Type::Q5_1),
    plain("Q8_0", 7, Type::Q8_0),
    mix("Q2_K", nullptr, 10, Type::Q2_K, {When::kGqa4, Type::Q4_K, Type::Q3_K}, always(Type::Q3_K), always(Type::Q3_K),
        true),
    mix("Q3_K_S", nullptr, 11, Type::Q3_K, always(Type::Q3_K), always(Type::Q3_K), always(Type::Q3_K), true),
    mix("Q3_K_M", "Q3_K", 12, Type::Q3_K, {When::kFirstTwo, Type::Q5_K, Type::Q4_K}, always(Type::Q4_K),
        {When::kFirstSixteenth, Type::Q5_K, Type::Q4_K}, true),
    mix("Q3_K_L", nullptr, 13, Type::Q3_K, always(Type::Q5_K), always(Type::Q5_K), always(Type::Q5_K), false),
    mix("Q4_K_S", nullptr, 14, Type::Q4_K, {When::kFirstFour, Type::Q5_K, Type::Q4_K}, always(Type::Q4_K),
        {When::kFirstEighth, Type::Q5_K, Type::Q4_K}, true),
    mix("Q4_K_M", "Q4_K", 15, Type::Q4_K, {When::kMoreBits, Type::Q6_K, Type::Q4_K}, always(Type::Q4_K),
        {When::kMoreBits, Type::Q6_K, Type::Q4_K}, true),
    plain("Q5_K_S", 16, Type::Q5_K),
    mix("Q5_K_M", "Q5_K", 17, Type::Q5_K, {When::kMoreBits, Type::Q6_K, Type::Q5_K}, always(Type::Q5_K),
        {When::kMoreBits, Type::Q6_K, Type::Q5_K}, false),
    plain("Q6_K", 18, Type::Q6_K),
    mix("IQ4_NL", nullptr, 25, Type::IQ4_NL, {When::kGqa4, Type::Q5_K, Type::IQ4_NL}, always(Type::IQ4_NL),
        {When::kFirstEighth, Type::Q5_K, Type::IQ4_NL}, true),
    mix("IQ4_XS", nullptr, 30, Type::IQ4_XS, {When::kGqa4, Type::Q5_K, Type::IQ4_XS}, always(Type::IQ4_XS),
        {When::kFirstEighth, Type::Q5_K, Type::IQ4_XS}, true),
    with_embedding(plain("TQ1_0", 36, Type::TQ1_0), Type::Q4_K),
    with_embedding(plain("TQ2_0", 37, Type::TQ2_0), Type::Q4_K),
    for_experts("MXFP4_MOE", "MXFP4", 38, Type::MXFP4),
    plain("NVFP4", 39, Type::NVFP4),
    plain("Q1_0", 40, Type::Q1_0),
    with_embedding(plain("Q2_0", 41, Type::Q2_0), Type::Q4_K),
};

// They search codebooks for the weights that matter most, and so need a measured importance of every weight.
constexpr const char* kWithImportance[] = {"Q2_K_S",  "IQ1_S",   "IQ1_M",  "IQ2_XXS", "IQ2_XS", "IQ2_S",
                                           "IQ2_M",   "IQ3_XXS", "IQ3_XS", "IQ3_S",   "IQ3_M"};

bool same_name(std::string_view a, std::string_view b) {
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return upper(x) == upper(y); });
}

}  // namespace

bool holds(When when, const Position& position) {
  const int64_t i = position.index, n = position.count;
  switch (when) {
    case When::kAlways: return true;
    case When::kFirstTwo: return i < 2;
    case When::kFirstFour: return i < 4;
    case When::kFirstSixteenth: return i < n / 16;
    case When::kFirstEighth: return i < n / 8;
    case When::kMoreBits: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case When::kGqa4: return position.gqa4;
  }
  return false;
}

std::span<const FileType> file_types() { return kFileTypes; }

Result<const FileType*> find_file_type(std::string_view name) {
  for (const FileType& type : kFileTypes) {
    if (same_name(name, type.name) || (type.alias != nullptr && same_name(name, type.alias))) return &type;
  }
  for (const char* known : kWithImportance) {
    if (!same_name(name, known)) continue;
    return Error{ErrorCode::kUnsupported,
                 format("no quantiser for {}: it needs a measured importance of every weight; there are {}", known,
                        file_type_names())};
  }
  return Error{ErrorCode::kBadInput,
               format("unknown type '{}'; there are {}", printable(name, 40), file_type_names())};
}

std::string file_type_names() {
  std::string names;
  for (const FileType& type : kFileTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

}  // namespace strata::gguf
