#include "text/pretokenizer/pretokenizer.h"

namespace strata::text {

namespace {

constexpr PretokenizerRow kRows[] = {
    {kDefaultPretokenizer, make_default_pretokenizer},
    {"qwen2", make_qwen2_pretokenizer},
    {"deepseek-r1-qwen", make_qwen2_pretokenizer},
    {"stablelm2", make_qwen2_pretokenizer},
};

}  // namespace

const PretokenizerRow* find_pretokenizer(std::string_view name) {
  for (const PretokenizerRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace strata::text
