#include "experts/mixed_model.h"

#include "base/format.h"

namespace strata::test {
namespace {

std::vector<TensorSpec> layer_by_layer(const std::vector<ExpertSpec>& specs, const FillPart& fill) {
  std::vector<TensorSpec> tensors;
  for (size_t l = 0; l < specs.size(); l++) {
    if (specs[l].n_experts == 0) continue;
    ExpertSpec spec = specs[l];
    spec.n_layers = static_cast<int>(l) + 1;
    for (TensorSpec& tensor : expert_tensors(spec, fill)) {
      if (tensor.name.starts_with(format("blk.{}.", l))) tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace

MixedModel::MixedModel(const std::vector<ExpertSpec>& specs, const FillPart& fill)
    : files(layer_by_layer(specs, fill), 1), model(gguf::Model::open(files.path(), files.system()).value()),
      layout(experts::ExpertLayout::from_model(*model, static_cast<int>(specs.size()), specs[0].dim, specs[0].ffn,
                                               specs[0].n_experts).value()) {}

}  // namespace strata::test
