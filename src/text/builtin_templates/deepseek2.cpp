#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"'Assistant: '", "eos"};

constexpr std::string_view kSource = R"jinja({{- bos_token -}}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- message.content + '\n\n' -}}
  {%- elif message.role == 'assistant' -%}
    {{- 'Assistant: ' + message.content + eos_token -}}
  {%- else -%}
    {{- 'User: ' + message.content + '\n\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- 'Assistant:' -}}
{%- endif -%})jinja";

}  // namespace

const BuiltinTemplate kDeepseek2 = {.name = "deepseek2", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
