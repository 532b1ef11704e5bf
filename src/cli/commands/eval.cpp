// strata eval: numbers about what a model thinks of texts, for comparisons.
#include "base/format.h"
#include "cli/commands/commands.h"
#include "cli/eval/evaluation.h"

namespace strata::cli {
namespace {

struct Evaluation {
  const char* name;
  std::vector<Key> needs;  // settings without a default
  Status (*run)(const Settings& settings);
};

const Evaluation kEvaluations[] = {
    {"logprobs", {Key::kModel, Key::kIdsFile, Key::kOut}, eval_logprobs},
    {"perplexity", {Key::kModel, Key::kFile}, eval_perplexity},
    {"kl", {Key::kModel, Key::kIdsFile, Key::kReference}, eval_kl},
};

const Evaluation* find_evaluation(const std::string& name) {
  for (const Evaluation& evaluation : kEvaluations) {
    if (name == evaluation.name) return &evaluation;
  }
  return nullptr;
}

bool is_chosen_otherwise(const Settings& settings) {
  return settings.is_set(Key::kEvaluation) || !environment(environment_name(setting(Key::kEvaluation)).c_str()).empty();
}

// The first word chooses, unless --evaluation or the environment has chosen and it is the model.
Status take_words(Words words, Settings& settings) {
  if (words.empty() || find_evaluation(words[0]) == nullptr) {
    if (is_chosen_otherwise(settings)) return take_model(words, settings);
    const std::string given = words.empty() ? "nothing" : "'" + printable(words[0]) + "'";
    return Error{ErrorCode::kBadInput, format("eval can compute logprobs, perplexity and kl, but {} was asked for; "
                                              "write strata eval logprobs MODEL, for example", given)};
  }
  RETURN_IF_ERROR(give(settings, Key::kEvaluation, words[0]));
  return take_model(words.subspan(1), settings);
}

Status require(const Settings& settings, const Evaluation& evaluation) {
  for (const Key key : evaluation.needs) {
    if (!settings.text(key).empty()) continue;
    const std::string what = key == Key::kModel ? format("a model: strata eval {} MODEL", evaluation.name)
                                                : format("--{} FILE", setting(key).name);
    return Error{ErrorCode::kBadInput, format("eval {} needs {}", evaluation.name, what)};
  }
  return {};
}

Status eval(const Settings& settings) {
  const Evaluation* evaluation = find_evaluation(settings.text(Key::kEvaluation));
  ASSERT(evaluation != nullptr);
  RETURN_IF_ERROR(require(settings, *evaluation));
  return evaluation->run(settings);
}

}  // namespace

const Command kEvalCommand = {
    .name = "eval",
    .arguments = "logprobs|perplexity|kl MODEL",
    .summary =
        "Compute log-probabilities (rows of little-endian float32), a perplexity, or the KL divergence from such rows",
    .scope = kScopeEval,
    .take_words = take_words,
    .run = eval,
};

}  // namespace strata::cli
