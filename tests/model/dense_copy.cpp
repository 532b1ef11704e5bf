#include "model/dense_copy.h"

namespace strata::test {

ModelCopy with_one_expert(const std::string& golden_arch, uint64_t expert) {
  ModelCopy m(golden_arch);
  for (ModelCopy::Tensor& t : m.tensors()) {
    const bool routed = t.name.find("_exps.") != std::string::npos;
    if (!routed && t.name.find("ffn_gate_inp.weight") == std::string::npos) continue;
    const uint64_t rows = t.rows() / t.ne.back();
    t.data = t.row_range(expert * rows, rows);
    t.ne.back() = 1;
  }
  m.set_u32("expert_count", 1);
  m.set_u32("expert_used_count", 1);
  return m;
}

ModelCopy dense_twin(const std::string& golden_arch, uint64_t expert, const std::string& arch) {
  ModelCopy m = with_one_expert(golden_arch, expert);
  uint64_t width = 0;
  std::erase_if(m.tensors(), [](const ModelCopy::Tensor& t) { return t.name.ends_with("ffn_gate_inp.weight"); });
  for (ModelCopy::Tensor& t : m.tensors()) {
    const size_t at = t.name.find("_exps.");
    if (at == std::string::npos) continue;
    t.name.erase(at, std::string_view("_exps").size());
    t.ne.pop_back();
    if (t.name.ends_with("ffn_gate.weight")) width = t.ne.back();
  }
  m.remove("expert_count");
  m.remove("expert_used_count");
  m.remove("expert_feed_forward_length");
  m.set_u32("feed_forward_length", static_cast<uint32_t>(width));
  m.rename_arch(arch);
  return m;
}

}  // namespace strata::test
