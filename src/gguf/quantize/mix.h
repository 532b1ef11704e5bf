// Which type every tensor of a model gets: the mixes of file_types.h applied to names and shapes.
#pragma once

#include <vector>

#include "gguf/gguf.h"
#include "gguf/quantize/file_types.h"

namespace strata::gguf {

// What the rules ask of a model's metadata; 0 where it does not say.
struct ModelShape {
  int64_t n_layers = 0;
  int64_t n_experts = 0;
  int64_t n_heads = 0;     // of the first layer
  int64_t n_kv_heads = 0;  // of the first layer
};
ModelShape read_shape(const Model& model);

// Whether a tensor is quantised at all: matrices and stacks of them named ".weight", but no norms, routers,
// convolutions, positions and other small things that cost little and suffer much.
bool is_quantised(const TensorInfo& tensor);

// The type closest to `wanted` whose blocks fit rows of `row_elems` elements; F16 when none does.
quant::Type fitting_type(quant::Type wanted, uint64_t row_elems);

struct Choice {
  quant::Type wanted = quant::Type::F32;  // what the mix says
  quant::Type type = quant::Type::F32;    // what fits the tensor's rows
};

// One choice per tensor, in their order; a tensor that stays as it is has its own type. `pure`: the base type for all
// that are quantised. Tensors without float values stay as they are.
std::vector<Choice> choose_types(const FileType& file, const ModelShape& shape, std::span<const TensorInfo> tensors,
                                 bool pure);

}  // namespace strata::gguf
