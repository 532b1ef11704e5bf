// The one table of settings. From it come the flags, --help, the environment names and docs/SETTINGS.md; code reads
// values through the typed key, so a setting that is not in the table does not exist.
//
// A value comes from the flag, else from the environment (STRATA_ + name in capitals, - as _), else from the default.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata {

enum class SettingType {
  kInt,     // within [min, max]; "auto" where auto_allowed()
  kFloat,   // the same
  kText,    // any text
  kChoice,  // one of `choices`, separated by |
  kSwitch,  // on | off; as a flag also --name (= on) and --no-name (= off)
};

// Which commands take the setting: bits of a mask.
enum SettingScope : uint32_t {
  kScopeRun = 1u << 0,
  kScopeEval = 1u << 1,
  kScopeInspect = 1u << 2,
  kScopeTokenize = 1u << 3,  // tokenize and detokenize
  kScopeGlobal = 1u << 4,    // every command
  kScopeQuantize = 1u << 5,
  kScopeTemplate = 1u << 6,
  kScopeBench = 1u << 7,
  kScopePlan = 1u << 8,
  kScopeProfile = 1u << 9,
  kScopeServe = 1u << 10,
  // Whatever answers.
  kScopeAnswer = kScopeRun | kScopeServe,
  // Whatever computes with a model, or plans to.
  kScopeEngine = kScopeAnswer | kScopeEval | kScopeBench | kScopePlan | kScopeProfile,
};

// X(key, "flag-name", type, "default", min, max, "unit", "choices", scope, "help")
// The table itself: settings_table.h.
#include "base/settings_table.h"

enum class Key {
#define X(key, name, type, def, min, max, unit, choices, scope, help) key,
  STRATA_SETTINGS(X)
#undef X
  kCount
};

struct Setting {
  Key key;
  const char* name;          // flag name without the dashes
  SettingType type;
  const char* default_text;  // "auto" for a number that the program chooses
  double min, max;           // of numbers
  const char* unit;          // "GiB", "tokens", ...; "" for none
  const char* choices;       // of kChoice
  uint32_t scope;
  const char* help;          // one sentence
};

std::span<const Setting> all_settings();
const Setting& setting(Key key);
const Setting* find_setting(std::string_view name);
// Whether "auto" is a value of this number: where it is the default.
bool auto_allowed(const Setting& setting);
// "STRATA_KV_TYPE" for "kv-type".
std::string environment_name(const Setting& setting);

// Validated values. Starts from the defaults.
class Settings {
 public:
  Settings();

  // Parses and range-checks; kBadInput says what was given, what is allowed, and whence it came (`origin`: a flag or
  // an environment name).
  Status set(Key key, std::string_view text, std::string_view origin);
  // Takes every setting of `scope`, and the global ones, that the environment names and no flag has set. An empty
  // variable counts as absent; of a switch, 1 and 0 are on and off.
  Status load_environment(uint32_t scope);

  bool is_set(Key key) const;                // given by flag or environment
  bool is_auto(Key key) const;               // kInt, kFloat: left to the program
  int64_t integer(Key key) const;            // kInt; asserts on auto
  double number(Key key) const;              // kFloat
  bool on(Key key) const;                    // kSwitch
  const std::string& text(Key key) const;    // kText, kChoice

 private:
  struct Value {
    std::string text;     // as given
    double number = 0;    // kInt, kFloat
    int64_t integer = 0;  // kInt; kSwitch: 1 for on
    bool is_auto = false;
    bool given = false;
  };
  // nullopt where the row does not allow the text.
  static std::optional<Value> parse(const Setting& row, std::string_view text);
  const Value& value_of(Key key) const;

  std::vector<Value> values_;  // by Key
};

// docs/SETTINGS.md, made from the table.
std::string settings_markdown();

// For what is not a setting of the table: the environment of the process ("" when absent). The only getenv.
std::string environment(const char* name);

}  // namespace strata
