// Frequencies of the rotary embedding, made once per layer kind at load; kernels::rope_angles turns them into angles.
#pragma once

#include <span>
#include <vector>

namespace strata::kernels {

enum class RopeScalingType { kNone, kLinear, kYarn };

// Pair p of n_rot/2 turns by position * base^(-2p/n_rot), changed by the scaling and divided by divisors[p].
struct RopeScaling {
  RopeScalingType type = RopeScalingType::kNone;
  int n_rot = 0;       // values of a head that are rotated; even, > 0
  double base = 10000;
  double factor = 1;   // linear, yarn: how far the context is stretched, > 0

  // yarn: pairs that turn more than beta_fast times within the original context keep their frequency, those below
  // beta_slow turns are stretched by `factor`, and a ramp lies between.
  double original_context = 0;  // tokens, > 0
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;         // round the ramp's ends to whole pairs
  double ext_factor = 1;        // how much of what the ramp keeps is kept; 0: all are stretched, and the magnitude is 1
  // The file names a log multiplier: the magnitude is part of the softmax scale and leaves cos and sin alone.
  bool has_log_multiplier = false;

  double attn_factor = 1;                 // multiplies cos and sin, with every type
  std::span<const float> divisors = {};  // n_rot/2 values, or empty for 1
};

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [n_rot/2], radians per position
  float magnitude = 1;          // multiplies cos and sin of the rotated pairs
};

RopeFrequencies rope_frequencies(const RopeScaling& scaling);

}  // namespace strata::kernels
