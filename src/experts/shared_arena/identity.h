// What the arena of a model is: its size, how its payload is laid out, and from which files it comes.
#pragma once

#include <vector>

#include "experts/expert.h"
#include "experts/shared_arena/header.h"
#include "gguf/gguf.h"

namespace strata::experts::shared_arena {

// Bytes of the file for an arena of so many bytes: the header's page, and the payload in whole pages.
uint64_t file_bytes(uint64_t payload_bytes);

// The geometry is a hash of the number of layers and of each layer's experts and parts; the fingerprint one of sizes of
// all files, of names, types, shapes and offsets of all tensors, and of samples of the content: of each file
// kFileSamples blocks at equal distances, of each layer's parts a block of the middle expert. The names of the files
// don't count. Reads the samples; kIo names file and offset.
Result<Identity> identity_of(const gguf::Model& model, const ExpertLayout& layout);
inline constexpr uint64_t kFileSamples = 64;
inline constexpr uint64_t kSampleBytes = 4096;

}  // namespace strata::experts::shared_arena
