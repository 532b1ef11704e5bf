// One declaration per command; the definitions are one file each, the table is registry.cpp.
#pragma once

#include "cli/command.h"

namespace strata::cli {

extern const Command kRunCommand;
extern const Command kServeCommand;
extern const Command kInspectCommand;
extern const Command kEvalCommand;
extern const Command kTokenizeCommand;
extern const Command kDetokenizeCommand;
extern const Command kQuantizeCommand;
extern const Command kTemplateCommand;
extern const Command kBenchCommand;
extern const Command kProfileCommand;
extern const Command kPlanCommand;
extern const Command kSettingsCommand;

}  // namespace strata::cli
