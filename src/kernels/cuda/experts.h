// The experts of a few pairs, in two kernels: gate, up and activation of each pair, then the down products of a row's
// pairs with, if wanted, their weighted sum. Rows of weights are staged in shared memory, so that most bytes a step
// reads are asked for at once. The second kernel asks for its weights while the first still computes.
#pragma once

#include "kernels/cuda/product.h"

namespace strata::kernels::cuda {

// x[r] += sum over ranks j of weights[r][j] * product of pair r * k + j, in order of j, each product and sum rounded;
// pairs whose expert is in no slot add nothing.
struct ExpertSum {
  const float* weights = nullptr;  // [rows][k]; null: the products go to their own rows of y
  int64_t weights_stride = 0;
  float* x = nullptr;
  int64_t x_stride = 0;
};

struct ExpertLaunch {
  int n_sms;
  size_t max_shared_bytes;  // of a block, when a kernel asks for it
  cudaStream_t stream;
};

// hidden = activation(gate x, up x) of each pair: a product of two parts with kActivate and rounded activations. False,
// and nothing is launched, for shapes that it has no room for.
bool launch_expert_hidden(const Product& product, const ExpertLaunch& launch);

// Down products of rounded activations. `after_hidden`: on the stream it stands directly behind launch_expert_hidden(),
// which was not refused. False, and nothing is launched, for shapes that it has no room for.
bool launch_expert_down(const Product& product, const ExpertSum& sum, bool after_hidden, const ExpertLaunch& launch);

}  // namespace strata::kernels::cuda
