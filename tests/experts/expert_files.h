// Small model files with experts, in every form the layout accepts, one file or three.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_sim.h"
#include "experts/expert.h"
#include "gguf/gguf_builder.h"

namespace strata::test {

// The experts of a model and how they lie in its files.
struct ExpertSpec {
  enum class Form { kMerged, kFused, kSeparate };
  Form form = Form::kMerged;
  int n_layers = 1;
  int64_t dim = 32;
  int64_t ffn = 64;
  int64_t n_experts = 4;
  quant::Type gate_up_type = quant::Type::F32;
  quant::Type down_type = quant::Type::F32;
  bool biases = false;
  bool scales = false;
};

// Fills the bytes of one part of one expert: of a fused tensor first the gate, then the up bytes.
using FillPart = std::function<void(experts::ExpertKey, experts::PartKind, std::vector<uint8_t>&)>;

// Every part's bytes are those of `fill`, whatever the form.
std::vector<TensorSpec> expert_tensors(const ExpertSpec& spec, const FillPart& fill);

// Random weights, biases around 0.5 and scales around 1; the same for a seed, whatever the form.
FillPart random_parts(const ExpertSpec& spec, uint64_t seed);
// All bytes of a part say whose they are: see part_number.
FillPart numbered_parts();
uint8_t part_number(experts::ExpertKey key, experts::PartKind kind);

// The type of a part and its number of elements.
quant::Type part_type(const ExpertSpec& spec, experts::PartKind kind);
size_t part_elements(const ExpertSpec& spec, experts::PartKind kind);
size_t part_bytes(const ExpertSpec& spec, experts::PartKind kind);

// The tensors as model files in memory: one, or three with the tensors dealt out in turn.
class ExpertFiles {
 public:
  ExpertFiles(const std::vector<TensorSpec>& tensors, int n_files);
  MemoryFileSystem& system() { return system_; }
  const std::string& path() const { return path_; }

 private:
  MemoryFileSystem system_;
  std::string path_;
};

}  // namespace strata::test
