#include "model/expert_layout.h"

#include "base/format.h"

namespace strata::model {
namespace {

// Those of a dense layer would be loaded and never used.
Status check_without_experts(const gguf::Model& model, int layer) {
  for (const char* name : {"ffn_gate_exps.weight", "ffn_gate_up_exps.weight", "ffn_gate.0.weight"}) {
    const std::string tensor = format("blk.{}.{}", layer, name);
    if (model.find_tensor(tensor) == nullptr) continue;
    return Error{ErrorCode::kBadInput, format("{}: tensor {} is there, but by the keys expert_count and "
                                              "leading_dense_block_count layer {} has no experts",
                                              model.path(), tensor, layer)};
  }
  return {};
}

}  // namespace

Result<experts::ExpertLayout> expert_layout(const gguf::Model& model, const HParams& hp) {
  for (int i = 0; i < hp.n_layers; i++) {
    if (hp.dense[static_cast<size_t>(i)]) RETURN_IF_ERROR(check_without_experts(model, i));
  }
  ASSIGN_OR_RETURN(experts::ExpertLayout layout, experts::ExpertLayout::from_model(model, hp.n_layers, hp.dim,
                                                                                   hp.expert_ffn, hp.route.n_experts));
  for (int i = 0; i < hp.n_layers; i++) {
    if (hp.dense[static_cast<size_t>(i)] || layout.layer(i).n_experts > 0) continue;
    return Error{ErrorCode::kBadInput, format("{}: tensor blk.{}.ffn_gate_exps.weight is missing", model.path(), i)};
  }
  return layout;
}

}  // namespace strata::model
