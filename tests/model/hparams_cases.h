// Metadata that lies about the shape of a model: one change to a golden model each, and the key that the refusal names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/model_copy.h"

namespace strata::test {

struct MetadataCase {
  std::string name;
  std::string key;  // without the architecture; what the message has to name
  std::function<void(ModelCopy&)> change;
};

// Those that apply to one of the golden architectures.
std::vector<MetadataCase> metadata_cases(const std::string& arch);

}  // namespace strata::test
