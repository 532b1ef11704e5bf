// Picks the next token from logits: bias, the stages in their order, then a draw.
//
//   bias -> penalties -> dry -> top_n_sigma -> top_k -> typ_p -> top_p -> min_p -> xtc -> temperature -> pick
//
// The order between bias and pick can be chosen (parse_stage_order). With mirostat only temperature is left of it, and
// mirostat picks; adaptive-p picks after the whole chain; else the distribution that is left is drawn from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "text/sampling/candidates.h"
#include "text/sampling/params.h"
#include "text/sampling/picker.h"
#include "text/sampling/stage.h"
#include "text/sampling/uniform.h"

namespace strata::text {

// One per sequence; not for several threads at once. Memory is allocated when it is made and by the first token;
// afterwards only windows of more than 4096 tokens still grow.
class Sampler {
 public:
  // kBadInput names a parameter that can't be. n_vocab >= 1.
  static Result<Sampler> create(const SamplerParams& params, int32_t n_vocab);

  // The next token for logits[n_vocab]. The same seed, logits, accepted tokens and order of stages give the same
  // tokens. Ties are settled for the lower id. Of a NaN logit the token is never picked. kInternal when no token can be
  // picked because every logit is NaN or -infinity, bias included.
  Result<int32_t> sample(std::span<const float> logits);

  // A token has become part of the text: every token of the prompt, then every one of the answer, sampled here or not.
  // Windows, mirostat and adaptive-p go by accepted tokens only.
  void accept(int32_t id);

  // As it was made: for another answer with the same parameters.
  void reset();

 private:
  Sampler(const SamplerParams& params, int32_t n_vocab);
  void add_bias();

  std::vector<LogitBias> bias_;
  std::vector<int32_t> suppress_;  // of the vocabulary
  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<Picker> picker_;
  Uniform uniform_;
  Candidates candidates_;
  bool takes_best_;  // nothing in the chain can change which candidate is the best, and that is wanted
};

}  // namespace strata::text
