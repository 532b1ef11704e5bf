// A number that tells whether the bytes of all experts are those they should be, wherever they lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "experts/expert.h"
#include "experts/source.h"

namespace strata::experts {

// XXH64 of the bytes of a blob: its parts in the order of the layout, without what lies between them. `parts` has the
// address of each.
uint64_t blob_checksum(const LayerLayout& layer, std::span<const std::byte* const> parts);

// The checksum of all experts: XXH64 of the checksums of their blobs, 8 bytes each, little-endian, layer-major.
uint64_t combined_checksum(std::span<const uint64_t> blobs);

// Of what a source gives. Reads what is not in memory, computes with the threads of the pool, fails as fetch() does.
Result<uint64_t> source_checksum(ExpertSource& source, const ExpertLayout& layout, ThreadPool& pool);

}  // namespace strata::experts
