// strata profile: how often a model's experts are used, and what caches of them would hold.
#include <algorithm>

#include "base/format.h"
#include "cli/commands/commands.h"
#include "cli/profile/profiling.h"

namespace strata::cli {
namespace {

struct Action {
  const char* name;
  const char* usage;
  size_t min_files, max_files;  // of --profile-files
  std::vector<Key> needs;       // settings without a default
  std::vector<Key> takes;       // flags that it knows beside those
  bool computes;                // with a model: it takes the flags of the engine, too
  Status (*run)(const Settings& settings);
};

const Action kActions[] = {
    {"record", "record MODEL --file TEXT --out PROFILE", 0, 0, {Key::kModel, Key::kFile},
     {Key::kOut, Key::kRoutings}, true, profile_record},
    {"show", "show PROFILE", 1, 1, {}, {}, false, profile_show},
    {"merge", "merge PROFILE PROFILE --out PROFILE", 1, 1000, {Key::kOut}, {}, false, profile_merge},
    {"replay", "replay ROUTINGS", 1, 1, {}, {Key::kExpertProfile, Key::kSlots, Key::kAdaptEvery}, false,
     profile_replay},
};

const Action* find_action(const std::string& name) {
  for (const Action& action : kActions) {
    if (name == action.name) return &action;
  }
  return nullptr;
}

bool is_one_of(const std::vector<Key>& keys, Key key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

bool knows(const Action& action, Key key) {
  if (key == Key::kProfiling || is_one_of(action.needs, key) || is_one_of(action.takes, key)) return true;
  if (key == Key::kProfileFiles) return action.max_files > 0;
  if ((setting(key).scope & kScopeGlobal) != 0) return true;
  // Settings that more commands know than this one are the engine's.
  return action.computes && (setting(key).scope & ~uint32_t{kScopeProfile}) != 0;
}

// Called before the environment is read: that may well be meant for other calls.
Status check_flags(const Settings& settings, const Action& action) {
  for (const Setting& row : all_settings()) {
    if (!settings.is_set(row.key) || knows(action, row.key)) continue;
    return Error{ErrorCode::kBadInput, format("--{} means nothing to profile {}; write strata profile {}", row.name,
                                              action.name, action.usage)};
  }
  return {};
}

Status take_files(Words words, Settings& settings) {
  std::string files;
  for (const std::string& word : words) {
    if (word.find(',') != std::string::npos) {
      return Error{ErrorCode::kBadInput, format("'{}': a comma in a name ends it here; rename the file",
                                                printable(word))};
    }
    files += (files.empty() ? "" : ",") + word;
  }
  return words.empty() ? Status() : give(settings, Key::kProfileFiles, files);
}

Status take_words(Words words, Settings& settings) {
  if (!words.empty() && find_action(words[0]) != nullptr) {
    RETURN_IF_ERROR(give(settings, Key::kProfiling, words[0]));
    words = words.subspan(1);
  } else if (!settings.is_set(Key::kProfiling)) {
    const std::string given = words.empty() ? "nothing" : "'" + printable(words[0]) + "'";
    return Error{ErrorCode::kBadInput, format("profile can record, show, merge and replay, but {} was asked for; write "
                                              "strata profile show PROFILE, for example",
                                              given)};
  }
  const Action& action = *find_action(settings.text(Key::kProfiling));
  RETURN_IF_ERROR(action.computes ? take_model(words, settings) : take_files(words, settings));
  return check_flags(settings, action);
}

Status profile(const Settings& settings) {
  const Action& action = *find_action(settings.text(Key::kProfiling));
  const size_t n = profile_files(settings).size();
  bool complete = action.computes || (n >= action.min_files && n <= action.max_files);
  for (const Key key : action.needs) complete = complete && !settings.text(key).empty();
  if (action.computes) {
    complete = complete && !(settings.text(Key::kOut).empty() && settings.text(Key::kRoutings).empty());
  }
  if (!complete) {
    const char* also = action.computes ? ", with --routings FILE beside or instead of --out" : "";
    return Error{ErrorCode::kBadInput, format("write strata profile {}{}", action.usage, also)};
  }
  return action.run(settings);
}

}  // namespace

const Command kProfileCommand = {
    .name = "profile",
    .arguments = "record|show|merge|replay",
    .summary = "Record which experts texts use, show and add up such profiles, or measure caches on recordings",
    .scope = kScopeProfile,
    .take_words = take_words,
    .run = profile,
};

}  // namespace strata::cli
