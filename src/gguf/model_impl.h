// What a Model holds; shared by opener.cpp, which fills it, and model.cpp, which answers from it.
#pragma once

#include <cstdint>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/parser.h"

namespace strata::gguf {

struct Model::Impl {
  std::vector<Shard> shards;
  std::vector<TensorInfo> tensors;
  std::vector<uint32_t> by_name;  // indices into tensors, sorted by name
  ParsedFile first;               // entries of the first shard and what they point into
};

}  // namespace strata::gguf
