#include "cli/commands/commands.h"

namespace strata::cli {
namespace {

const Command* const kRows[] = {&kRunCommand,      &kServeCommand,      &kInspectCommand,  &kEvalCommand,
                                &kTokenizeCommand, &kDetokenizeCommand, &kQuantizeCommand, &kTemplateCommand,
                                &kBenchCommand,    &kPlanCommand,       &kProfileCommand,  &kSettingsCommand};

}  // namespace

std::span<const Command* const> all_commands() { return kRows; }

}  // namespace strata::cli
