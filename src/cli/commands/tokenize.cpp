#include "cli/commands/commands.h"
#include "cli/ids.h"
#include "cli/model_choice.h"
#include "cli/streams.h"
#include "text/tokenizer.h"

namespace strata::cli {
namespace {

Status tokenize(const Settings& settings) {
  ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  ASSIGN_OR_RETURN(const auto model, open_model(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(*model));
  ASSIGN_OR_RETURN(const std::string text, read_stdin(kMaxTextBytes));
  ASSIGN_OR_RETURN(const auto ids, tokenizer->encode(text, {.parse_special = settings.on(Key::kSpecial)}));
  return write_stdout(ids_text(ids) + "\n");
}

}  // namespace

const Command kTokenizeCommand = {
    .name = "tokenize",
    .arguments = "[MODEL]",
    .summary = "Print the token ids of the text on standard input, without a token for its beginning",
    .scope = kScopeTokenize,
    .take_words = take_model,
    .run = tokenize,
};

}  // namespace strata::cli
