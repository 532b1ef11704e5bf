#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"[INST]", "<<SYS>>"};

constexpr std::string_view kSource = R"jinja({%- set ns = namespace(system='') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- set ns.system = ns.system + message.content -%}
  {%- elif message.role == 'assistant' -%}
    {{- ' ' + message.content + ' ' + eos_token -}}
  {%- else -%}
    {{- bos_token + '[INST] ' -}}
    {%- if ns.system -%}
      {{- '<<SYS>>\n' + ns.system + '\n<</SYS>>\n\n' -}}
      {%- set ns.system = '' -%}
    {%- endif -%}
    {{- message.content + ' [/INST]' -}}
  {%- endif -%}
{%- endfor -%})jinja";

}  // namespace

const BuiltinTemplate kLlama2 = {.name = "llama2", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
