#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"<|start_header_id|>"};

constexpr std::string_view kSource = R"jinja({{- bos_token -}}
{%- for message in messages -%}
  {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content|trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{%- endif -%})jinja";

}  // namespace

const BuiltinTemplate kLlama3 = {.name = "llama3", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
