// The table of settings as a page for people.
#include "base/format.h"
#include "base/settings.h"

namespace strata {
namespace {

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string code(std::string_view text) { return text.empty() ? std::string() : "`" + cell(text) + "`"; }

std::string flag_text(const Setting& row) {
  if (row.type != SettingType::kSwitch) return format("`--{}`", row.name);
  return format("`--{}`, `--no-{}`", row.name, row.name);
}

std::string allowed_values(const Setting& row) {
  switch (row.type) {
    case SettingType::kInt:
    case SettingType::kFloat:
      return format("{} to {}{}", row.min, row.max, auto_allowed(row) ? ", or auto" : "");
    case SettingType::kText: return "text";
    case SettingType::kChoice: return code(row.choices);
    case SettingType::kSwitch: return code("on|off");
  }
  return "";
}

std::string commands(uint32_t scope) {
  if ((scope & kScopeGlobal) != 0) return "all";
  std::string out;
  const auto add = [&](uint32_t bit, const char* names) {
    if ((scope & bit) == 0) return;
    if (!out.empty()) out += ", ";
    out += names;
  };
  add(kScopeRun, "run");
  add(kScopeEval, "eval");
  add(kScopeInspect, "inspect");
  add(kScopeTokenize, "tokenize, detokenize");
  add(kScopeQuantize, "quantize");
  add(kScopeTemplate, "template");
  add(kScopeBench, "bench");
  add(kScopePlan, "plan");
  add(kScopeProfile, "profile");
  add(kScopeServe, "serve");
  return out;
}

}  // namespace

std::string settings_markdown() {
  std::string page =
      "# Settings\n\n"
      "Made from `src/base/settings_table.h`. A value comes from the flag, else from the environment variable, else\n"
      "from the default. An empty environment variable counts as absent, and for a switch 1 and 0 are on and off.\n\n"
      "| Flag | Environment | Default | Allowed | Unit | Commands | Meaning |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Setting& row : all_settings()) {
    page += format("| {} | `{}` | {} | {} | {} | {} | {} |\n", flag_text(row), environment_name(row),
                   code(row.default_text), allowed_values(row), row.unit, commands(row.scope), cell(row.help));
  }
  return page;
}

}  // namespace strata
