// What strata inspect says of a model, gathered from its files' metadata; no tensor data is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "experts/expert.h"
#include "gguf/gguf.h"

namespace strata::cli {

struct TypeTotal {
  quant::Type type;
  uint64_t n_tensors = 0;
  uint64_t bytes = 0;
};

struct ExpertPartReport {
  experts::PartKind kind;
  quant::Type type;
  bool operator==(const ExpertPartReport&) const = default;
};

// Layers next to each other whose experts are alike.
struct ExpertLayers {
  int first_layer = 0;
  int last_layer = 0;
  int32_t n_experts = 0;
  uint64_t bytes = 0;  // of one expert in the file
  std::vector<ExpertPartReport> parts;
};

// Blocks that propose tokens for the trunk to check (MTP). They stand behind its layers and are not used.
struct DraftBlocks {
  int first_layer = 0;
  int n_layers = 0;  // 0: the model has none
  uint64_t n_tensors = 0;
  uint64_t bytes = 0;
};

struct Report {
  const gguf::Model* model = nullptr;  // outlives the report
  std::string architecture;            // "" where the file does not say
  uint64_t n_parameters = 0;
  uint64_t tensor_bytes = 0;
  std::vector<TypeTotal> types;        // most bytes first
  std::vector<ExpertLayers> experts;   // layers that have some, ascending
  DraftBlocks draft;
  // Whether this program runs the model, as far as metadata, types and the layout of the experts tell; else why not.
  // Other tensors are compared with the metadata when the model is loaded.
  Status runs;
};

Report make_report(const gguf::Model& model);

const char* part_name(experts::PartKind kind);

// For people: one subject a block, control characters of the file replaced.
std::string report_text(const Report& report);
// One JSON object, indented; bytes that are not UTF-8 become U+FFFD.
std::string report_json(const Report& report);

}  // namespace strata::cli
