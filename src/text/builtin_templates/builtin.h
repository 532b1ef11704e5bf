// Templates for models whose own is missing or can't be used: one file per member, a row in registry.cpp. Their sources
// are Jinja, after the prompt formats that the makers of the models publish.
#pragma once

#include <span>
#include <string_view>

namespace strata::text {

struct BuiltinTemplate {
  const char* name;  // in messages, and where a user names one instead of a template
  // Texts that all stand in templates of the family.
  std::span<const std::string_view> markers;
  std::string_view source;
};

extern const BuiltinTemplate kChatml;
extern const BuiltinTemplate kLlama2;
extern const BuiltinTemplate kMistral;
extern const BuiltinTemplate kGlm4;
extern const BuiltinTemplate kDeepseek3;
extern const BuiltinTemplate kLlama3;
extern const BuiltinTemplate kHarmony;
extern const BuiltinTemplate kDeepseek2;

// In the order in which markers are looked for.
std::span<const BuiltinTemplate* const> builtin_templates();

// The first whose markers all stand in `template_text`, which may be broken or of another dialect; else ChatML.
const BuiltinTemplate& builtin_for(std::string_view template_text);
// null where there is none of this name.
const BuiltinTemplate* find_builtin(std::string_view name);

}  // namespace strata::text
