// strata plan: what would lie where, and how fast that would be.
#include "cli/commands/commands.h"
#include "cli/model_choice.h"
#include "cli/plan/model_plan.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

Status plan(const Settings& settings) {
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const ModelPlan planned, plan_model(*model, settings));
  return write_stdout(plan_text(planned, load_rates(rates_path()), cpu_name()));
}

}  // namespace

const Command kPlanCommand = {
    .name = "plan",
    .arguments = "[MODEL]",
    .summary = "Print what of a model would lie where on a machine, why, and how fast it would run",
    .scope = kScopePlan,
    .take_words = take_model,
    .run = plan,
};

}  // namespace strata::cli
