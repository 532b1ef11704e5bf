// What strata profile can do: one file each, and a row in commands/profile.cpp.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "experts/profile.h"

namespace strata::cli {

// Runs a text through a model and writes how often each expert was used, and with --routings which token went where.
Status profile_record(const Settings& settings);
// What a profile says, for people.
Status profile_show(const Settings& settings);
// Adds up profiles and recordings of one model.
Status profile_merge(const Settings& settings);
// Measures the policies of caches on a recording.
Status profile_replay(const Settings& settings);

// The files of --profile-files.
std::vector<std::string> profile_files(const Settings& settings);

// The uses in a profile or a recording.
Result<experts::ExpertProfile> read_uses(const std::string& path);

}  // namespace strata::cli
