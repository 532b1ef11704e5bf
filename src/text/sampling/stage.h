// A stage of the sampling chain: changes or drops candidates. One member a file or a small family a file; the rows that
// register them are in stage.cpp.
#pragma once

#include <memory>
#include <string_view>

#include "text/sampling/candidates.h"
#include "text/sampling/params.h"

namespace strata::text {

// One thread. Memory grows with the windows of tokens only, never per token.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual void apply(Candidates& candidates) = 0;
  // A token has become part of the text. Ids outside the vocabulary are allowed, and match no candidate.
  virtual void accept(int32_t) {}
  // Back to the state it was made in.
  virtual void reset() {}
};

struct StageRow {
  StageKind kind;
  std::string_view name;
  std::string_view alias;
  char letter;
  bool keeps_best;  // never drops the most probable candidate, nor changes which one it is
  bool (*active)(const SamplerParams& params);
  std::unique_ptr<Stage> (*make)(const SamplerParams& params, int32_t n_vocab);
};

const StageRow& stage_row(StageKind kind);

// All parameters of which have been checked.
std::unique_ptr<Stage> make_top_k(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_top_p(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_min_p(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_typical(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_top_n_sigma(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_xtc(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_temperature(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_penalties(const SamplerParams& params, int32_t n_vocab);
std::unique_ptr<Stage> make_dry(const SamplerParams& params, int32_t n_vocab);

}  // namespace strata::text
