#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"<|im_start|>"};

constexpr std::string_view kSource = R"jinja({%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' -}}
{%- endif -%})jinja";

}  // namespace

const BuiltinTemplate kChatml = {.name = "chatml", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
