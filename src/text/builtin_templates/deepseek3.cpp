#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"<｜Assistant｜>", "<｜User｜>"};

constexpr std::string_view kSource = R"jinja({{- bos_token -}}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {{- message.content -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<｜Assistant｜>' + message.content + eos_token -}}
  {%- else -%}
    {{- '<｜User｜>' + message.content -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<｜Assistant｜>' -}}
{%- endif -%})jinja";

}  // namespace

const BuiltinTemplate kDeepseek3 = {.name = "deepseek3", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
