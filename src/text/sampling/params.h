// What a request may ask of the sampler, with the names and defaults that are usual for GGUF runtimes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata::text {

class DryBreakers;

// The stages whose order can be chosen. The registration rows are in stage.cpp.
enum class StageKind : uint8_t {
  kPenalties, kDry, kTopNSigma, kTopK, kTypical, kTopP, kMinP, kXtc, kTemperature,
};

// penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature
//
// Temperature comes last, so the truncation works on untempered probabilities.
std::span<const StageKind> default_stage_order();

// Names separated by ; (- counts as _), or one letter a stage: edskypmxt. What can be read as names is taken so. An
// empty text is no stage at all. kBadInput names what is unknown or comes twice, and what there is.
Result<std::vector<StageKind>> parse_stage_order(std::string_view text);

struct LogitBias {
  int32_t id;
  float bias;  // added to the logit; -infinity forbids the token
};

struct SamplerParams {
  float temp = 0.8f;             // logits are divided by it; <= 0 takes the most probable token
  int32_t top_k = 40;            // candidates kept, with no limit but the vocabulary; <= 0 keeps all
  float top_p = 0.95f;           // the fewest most probable candidates that together reach it; >= 1 keeps all
  float min_p = 0.05f;           // candidates at least this share as probable as the best; <= 0 keeps all
  uint32_t seed = 0;             // any; a random one is the caller's choice
  float typical_p = 1;           // the fewest candidates of the most typical surprise that exceed it; >= 1 keeps all
  float top_n_sigma = -1;        // candidates within this many standard deviations of the best; <= 0 keeps all
  float xtc_probability = 0;     // how often the most probable candidates are left out; <= 0 never
  float xtc_threshold = 0.1f;    // those with at least this probability but the last; > 0.5 never
  int32_t min_keep = 0;          // candidates that top_p, min_p, typ_p and xtc leave at least
  float dynatemp_range = 0;      // temperature within temp +- this, by entropy; <= 0 is temp itself
  float dynatemp_exponent = 1;   // of the normalised entropy

  int32_t repeat_last_n = 64;    // accepted tokens that the three penalties look at; 0 none, -1 all
  float repeat_penalty = 1;      // > 0; 1 none
  float frequency_penalty = 0;   // subtracted once per occurrence
  float presence_penalty = 0;    // subtracted once if there is an occurrence

  float dry_multiplier = 0;      // 0 turns DRY off
  float dry_base = 1.75f;        // < 1 turns DRY off
  int32_t dry_allowed_length = 2;    // repetitions this long begin to be penalised
  int32_t dry_penalty_last_n = 64;   // accepted tokens looked at; 0 turns DRY off, -1 all
  std::shared_ptr<const DryBreakers> dry_breakers;  // null: nothing breaks a repetition

  int32_t mirostat = 0;          // 1 or 2: instead of all stages but temperature
  float mirostat_tau = 5;        // wanted surprise, bits
  float mirostat_eta = 0.1f;     // learning rate

  float adaptive_target = -1;    // probability that picks shall have on average; < 0 off. Not with mirostat
  float adaptive_decay = 0.9f;   // 0 to 0.99: how much older picks count

  std::vector<LogitBias> logit_bias;   // of one id: they add up
  std::vector<int32_t> suppress;       // never sampled; ids outside the vocabulary are ignored
  std::vector<StageKind> order{default_stage_order().begin(), default_stage_order().end()};
};

// kBadInput names the parameter, its value and what is allowed. n_vocab >= 1.
Status check_sampler_params(const SamplerParams& params, int32_t n_vocab);

}  // namespace strata::text
