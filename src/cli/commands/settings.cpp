#include "cli/commands/commands.h"
#include "cli/streams.h"

namespace strata::cli {

const Command kSettingsCommand = {
    .name = "settings",
    .arguments = "",
    .summary = "Print all settings as the page docs/SETTINGS.md",
    .scope = kScopeGlobal,
    .take_words = take_nothing,
    .run = [](const Settings&) { return write_stdout(settings_markdown()); },
};

}  // namespace strata::cli
