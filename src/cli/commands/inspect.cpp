#include "cli/inspect/report.h"

#include "cli/commands/commands.h"
#include "cli/model_choice.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

Status inspect(const Settings& settings) {
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  const Report report = make_report(*model);
  return write_stdout(settings.on(Key::kJson) ? report_json(report) : report_text(report));
}

}  // namespace

const Command kInspectCommand = {
    .name = "inspect",
    .arguments = "[MODEL]",
    .summary = "Print what a model file holds, and whether this program runs it",
    .scope = kScopeInspect,
    .take_words = take_model,
    .run = inspect,
};

}  // namespace strata::cli
