// The matrices of a blob, put together from the parts of its layer's layout.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "device/host/expert_ffn.h"
#include "device/ops/moe.h"
#include "experts/source.h"

namespace strata::experts {

// Of a blob whose parts lie at LayerLayout::part_offset.
device::ExpertBlob packed_blob(const LayerLayout& layer);
// Copies the parts of a leased blob to where packed_blob() says, with the threads of the pool. `to` has blob_bytes().
void pack_blob(const LayerLayout& layer, const Lease& lease, std::span<std::byte> to, ThreadPool& pool);
// Of a blob where its lease says.
device::host::PlacedExpert placed_blob(const LayerLayout& layer, const Lease& lease);

}  // namespace strata::experts
