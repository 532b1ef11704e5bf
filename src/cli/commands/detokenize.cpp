#include "cli/commands/commands.h"
#include "cli/ids.h"
#include "cli/model_choice.h"
#include "cli/streams.h"
#include "text/tokenizer.h"

namespace strata::cli {
namespace {

Status detokenize(const Settings& settings) {
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const auto ids, read_ids("-", tokenizer->vocab_size()));
  return write_stdout(tokenizer->decode(ids, settings.on(Key::kSpecial)));
}

}  // namespace

const Command kDetokenizeCommand = {
    .name = "detokenize",
    .arguments = "[MODEL]",
    .summary = "Print the bytes that the token ids on standard input stand for, and nothing else",
    .scope = kScopeTokenize,
    .take_words = take_model,
    .run = detokenize,
};

}  // namespace strata::cli
