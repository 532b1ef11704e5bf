// What a model file says about sampling.
#pragma once

#include "gguf/gguf.h"
#include "text/sampling/params.h"
#include "text/tokenizer.h"

namespace strata::text {

// The usual defaults, replaced by what the model's author recommends (general.sampling.*), and without the tokens that
// the model must never say (tokenizer.ggml.suppress_tokens). A caller puts what the user gave on top. kBadInput names
// file and key of a value that can't be meant.
Result<SamplerParams> model_sampler_params(const gguf::Model& model);

// All tokens that end an answer: suppressed, they make a model go on (ignore_eos).
std::vector<int32_t> end_of_generation_ids(const Tokenizer& tokenizer);

}  // namespace strata::text
