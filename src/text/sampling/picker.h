// The end of the sampling chain: picks one of the candidates that the stages left. One member a file.
#pragma once

#include <memory>

#include "text/sampling/candidates.h"
#include "text/sampling/params.h"
#include "text/sampling/uniform.h"

namespace strata::text {

// One thread; no memory per token beyond the first.
class Picker {
 public:
  virtual ~Picker() = default;
  // The id of a candidate; uses one number of `uniform`. May change the candidates.
  virtual int32_t pick(Candidates& candidates, Uniform& uniform) = 0;
  // A token has become part of the text. What a member learns from its picks it learns here, and only when this is the
  // token picked last: a pick that was thrown away teaches nothing.
  virtual void accept(int32_t) {}
  virtual void reset() {}
};

// The index of the first candidate at which the running sum of weights reaches u * total, u in [0, 1). One of weight 0
// is never drawn.
size_t draw(const Candidates& candidates, double u);

// By the parameters: adaptive-p, mirostat, or a draw from the distribution.
std::unique_ptr<Picker> make_picker(const SamplerParams& params, int32_t n_vocab);

std::unique_ptr<Picker> make_adaptive(const SamplerParams& params);
std::unique_ptr<Picker> make_mirostat(const SamplerParams& params, int32_t n_vocab);

}  // namespace strata::text
