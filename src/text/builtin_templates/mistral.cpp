#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"[INST]"};

constexpr std::string_view kSource = R"jinja({{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set ns.system = ns.system + message.content + '\n\n' -%}
  {%- elif message.role == 'assistant' -%}
    {{- ' ' + message.content + eos_token -}}
  {%- else -%}
    {{- '[INST] ' + ns.system + message.content + ' [/INST]' -}}
    {%- set ns.system = '' -%}
  {%- endif -%}
{%- endfor -%})jinja";

}  // namespace

const BuiltinTemplate kMistral = {.name = "mistral", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
