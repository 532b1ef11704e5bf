#include <algorithm>

#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

const BuiltinTemplate* const kRows[] = {&kChatml,    &kLlama2, &kMistral, &kGlm4,
                                        &kDeepseek3, &kLlama3, &kHarmony, &kDeepseek2};

}  // namespace

std::span<const BuiltinTemplate* const> builtin_templates() { return kRows; }

const BuiltinTemplate& builtin_for(std::string_view template_text) {
  for (const BuiltinTemplate* row : kRows) {
    const auto stands = [&](std::string_view marker) { return template_text.find(marker) != std::string_view::npos; };
    if (std::all_of(row->markers.begin(), row->markers.end(), stands)) return *row;
  }
  return kChatml;
}

const BuiltinTemplate* find_builtin(std::string_view name) {
  for (const BuiltinTemplate* row : kRows) {
    if (name == row->name) return row;
  }
  return nullptr;
}

}  // namespace strata::text
