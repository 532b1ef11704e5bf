#include "text/pretokenizer/pretokenizer.h"

namespace strata::text {

namespace {

constexpr bool kIgnoresMerges = true, kAddsBos = true;

constexpr PretokenizerRow kRows[] = {
    {kDefaultPretokenizer, make_default_pretokenizer},
    {"chatglm-bpe", make_llama_bpe_pretokenizer},
    {"codeshell", make_starcoder_pretokenizer},
    {"command-r", make_starcoder_pretokenizer},
    {"dbrx", make_llama_bpe_pretokenizer},
    {"deepseek-coder", make_deepseek_coder_pretokenizer},
    {"deepseek-llm", make_deepseek_llm_pretokenizer},
    {"deepseek-r1-qwen", make_qwen2_pretokenizer},
    {"deepseek-v3", make_deepseek_v3_pretokenizer},
    {"falcon", make_falcon_pretokenizer},
    {"glm4", make_llama_bpe_pretokenizer},
    {"gpt-2", make_gpt_2_pretokenizer},
    {"gpt-4o", make_gpt_4o_pretokenizer},
    {"hunyuan-dense", make_deepseek_v3_pretokenizer},
    {"llama-bpe", make_llama_bpe_pretokenizer, kIgnoresMerges, kAddsBos},
    {"llama-v3", make_llama_bpe_pretokenizer, kIgnoresMerges, kAddsBos},
    {"llama3", make_llama_bpe_pretokenizer, kIgnoresMerges, kAddsBos},
    {"llama4", make_gpt_4o_pretokenizer},
    {"mpt", make_gpt_2_pretokenizer},
    {"olmo", make_gpt_2_pretokenizer},
    {"phi-2", make_gpt_2_pretokenizer},
    {"qwen2", make_qwen2_pretokenizer},
    {"qwen35", make_qwen35_pretokenizer},
    {"refact", make_starcoder_pretokenizer},
    {"smaug-bpe", make_llama_bpe_pretokenizer},
    {"smollm", make_starcoder_pretokenizer},
    {"stablelm2", make_qwen2_pretokenizer},
    {"starcoder", make_starcoder_pretokenizer},
    {"tekken", make_tekken_pretokenizer, kIgnoresMerges, kAddsBos},
};

}  // namespace

const PretokenizerRow* find_pretokenizer(std::string_view name) {
  for (const PretokenizerRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace strata::text
