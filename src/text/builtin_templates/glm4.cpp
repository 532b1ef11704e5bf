#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"[gMASK]<sop>"};

constexpr std::string_view kSource = R"jinja({{- '[gMASK]<sop>' -}}
{%- for message in messages -%}
  {%- if message.role == 'assistant' -%}
    {{- '<|assistant|>\n<think></think>\n' + message.content -}}
  {%- elif message.role == 'tool' -%}
    {{- '<|observation|>\n' + message.content -}}
  {%- else -%}
    {{- '<|' + message.role + '|>\n' + message.content -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|assistant|>' -}}
  {%- if enable_thinking is defined and not enable_thinking -%}
    {{- '\n<think></think>' -}}
  {%- endif -%}
{%- endif -%})jinja";

}  // namespace

const BuiltinTemplate kGlm4 = {.name = "glm4", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
