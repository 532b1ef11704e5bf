#include "text/builtin_templates/builtin.h"

namespace strata::text {
namespace {

constexpr std::string_view kMarkers[] = {"<|start|>", "<|channel|>"};

constexpr std::string_view kSource = R"jinja({{- '<|start|>system<|message|>You are ChatGPT, ' -}}
{{- 'a large language model trained by OpenAI.\n' -}}
{{- 'Knowledge cutoff: 2024-06\nCurrent date: ' + strftime_now('%Y-%m-%d') + '\n\n' -}}
{{- 'Reasoning: ' + (reasoning_effort or 'medium') + '\n\n' -}}
{{- '# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>' -}}
{%- for message in messages -%}
  {%- if message.role in ['system', 'developer'] -%}
    {{- '<|start|>developer<|message|># Instructions\n\n' + message.content + '<|end|>' -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' -}}
  {%- else -%}
    {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|start|>assistant' -}}
{%- endif -%})jinja";

}  // namespace

const BuiltinTemplate kHarmony = {.name = "harmony", .markers = kMarkers, .source = kSource};

}  // namespace strata::text
