#include "cli/bench/traffic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "model/expert_layout.h"
#include "model/sequence.h"

namespace strata::cli {
namespace {

// N of "blk.N.rest"; -1 for other names.
int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

// Where the experts' tensors begin, whatever they are called.
std::set<std::pair<int, uint64_t>> expert_places(const experts::ExpertLayout& layout) {
  std::set<std::pair<int, uint64_t>> places;
  for (const experts::LayerLayout& layer : layout.layers()) {
    for (const experts::BlobPart& part : layer.parts) {
      for (const experts::BlobPart::Place& place : part.places) places.emplace(place.shard, place.offset);
    }
  }
  return places;
}

}  // namespace

Result<Traffic> Traffic::of(const gguf::Model& model, const model::HParams& hp, kernels::KvType kv_type) {
  ASSIGN_OR_RETURN(const experts::ExpertLayout layout, model::expert_layout(model, hp));
  Traffic traffic;
  traffic.experts_used_ = hp.route.n_used;
  traffic.add_experts(layout);
  traffic.add_tensors(model, layout, hp.n_layers);
  traffic.add_context(hp, kv_type);
  return traffic;
}

void Traffic::add_experts(const experts::ExpertLayout& layout) {
  for (const experts::LayerLayout& layer : layout.layers()) {
    for (const experts::BlobPart& part : layer.parts) expert_bytes_ += part.bytes;
  }
}

// Tensors of layers past the last one, and others that are not named here, take no part in a step.
void Traffic::add_tensors(const gguf::Model& model, const experts::ExpertLayout& layout, int n_layers) {
  const auto experts = expert_places(layout);
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    const int layer = layer_of(tensor.name);
    const bool of_layers = layer >= 0 && layer < n_layers && !experts.contains({tensor.shard, tensor.file_offset});
    // The last norm, or mixture of several residual streams; "output.weight" is the head.
    if (of_layers || tensor.name.starts_with("output_")) dense_bytes_ += tensor.bytes;
  }
  const gguf::TensorInfo* embedding = model.find_tensor("token_embd.weight");
  const gguf::TensorInfo* output = model.find_tensor("output.weight");
  if (output == nullptr) output = embedding;  // tied
  if (embedding != nullptr) embedding_row_bytes_ = embedding->row_bytes;
  if (output != nullptr) head_bytes_ = output->bytes;
}

void Traffic::add_context(const model::HParams& hp, kernels::KvType kv_type) {
  kv_token_bytes_ = model::StateMemory::token_bytes(hp, kv_type);
  for (int layer = 0; layer < hp.n_layers; layer++) {
    for (int i = 0; i < static_cast<int>(model::FixedState::kCount); i++) {
      const int64_t floats = model::fixed_columns(hp, layer, static_cast<model::FixedState>(i));
      fixed_state_bytes_ += static_cast<uint64_t>(floats) * sizeof(float);
    }
    const auto at = static_cast<size_t>(layer);
    if (const int64_t block = hp.index_block(layer); block > 0) {
      const auto key_bytes = static_cast<uint64_t>(hp.indexer.key_dim) * sizeof(float);
      sparse_.push_back({.block = block, .key_bytes = key_bytes, .most_tokens = hp.indexer.budget + block - 1});
    } else if (!hp.recurrent[at]) {
      windows_.push_back(hp.windows[at]);
    }
  }
}

uint64_t Traffic::context_bytes(const StepRows& rows) const {
  uint64_t tokens = 0;
  for (const int64_t window : windows_) {
    const int64_t end = rows.first + rows.n;
    tokens += static_cast<uint64_t>(window > 0 ? std::min(end, window + rows.n - 1) : end);
  }
  uint64_t index_bytes = 0;
  for (const Sparse& sparse : sparse_) {
    const int64_t end = rows.first + rows.n;
    tokens += static_cast<uint64_t>(std::min(end, sparse.most_tokens * rows.n));
    if (end > sparse.most_tokens) index_bytes += static_cast<uint64_t>(end / sparse.block) * sparse.key_bytes;
  }
  return tokens * kv_token_bytes_ + index_bytes + fixed_state_bytes_;
}

uint64_t Traffic::step_bytes(const StepRows& rows) const {
  const double experts = static_cast<double>(expert_bytes_) * rows.experts;
  return dense_bytes_ + static_cast<uint64_t>(std::llround(experts)) + (rows.head ? head_bytes_ : 0) +
         static_cast<uint64_t>(rows.n) * embedding_row_bytes_ + context_bytes(rows);
}

}  // namespace strata::cli
