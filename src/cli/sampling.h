// From settings to the parameters of the sampler.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "gguf/gguf.h"
#include "text/sampling/params.h"
#include "text/tokenizer.h"

namespace strata::cli {

// The usual values, those that the model recommends over them, and over these what the user gave. kBadInput names the
// flag or the model's key.
Result<text::SamplerParams> sampler_params(const Settings& settings, const gguf::Model& model,
                                           const text::Tokenizer& tokenizer, uint32_t seed);

// "15043+1.5,29871-inf": token ids, each with what is added to its logit. Empty for none.
Result<std::vector<text::LogitBias>> parse_logit_bias(std::string_view text);

// Texts separated by commas, in which \n \t \r \\ and \, stand for themselves; "none" for none.
Result<std::vector<std::string>> parse_sequence_breakers(std::string_view text);

}  // namespace strata::cli
