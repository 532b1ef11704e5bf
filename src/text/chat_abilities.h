// What a chat template can do, found out by rendering small conversations with it.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/jinja/template.h"

namespace strata::text {

struct ChatAbilities {
  bool text_content = false;      // content that is a string
  bool content_parts = false;     // content that is a list of {"type": "text", "text": ...}
  bool object_arguments = false;  // arguments of tool calls that are objects
  bool text_arguments = false;    // arguments that are JSON in a string, and are written as they stand
  bool null_with_calls = false;   // tool calls are seen only where the content is null
};

// `constants`: variables of every rendering, as bos_token; `with_tools`: whether conversations come with a tool. Fails
// when the template can't render a single message of a user; the error is the template's.
Result<ChatAbilities> find_abilities(const jinja::Template& chat_template, const nlohmann::ordered_json& constants,
                                     bool with_tools);

}  // namespace strata::text
