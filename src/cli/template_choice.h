// Which chat template a command uses.
#pragma once

#include <memory>

#include "base/settings.h"
#include "gguf/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace strata::cli {

// The model's template, or what --chat-template names: a built-in one, else a file. kNotFound, kIo and kBadInput name
// the flag.
Result<std::unique_ptr<text::ChatTemplate>> load_template(const Settings& settings, const gguf::Model& model,
                                                          const text::Tokenizer& tokenizer);

}  // namespace strata::cli
