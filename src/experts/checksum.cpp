#include "experts/checksum.h"

#include <algorithm>

#include "base/xxhash64.h"

namespace strata::experts {
namespace {

// Enough to keep a drive and the threads busy, and few enough that no source grows for them.
constexpr int64_t kBatch = 32;

std::vector<ExpertKey> keys_of(const ExpertLayout& layout) {
  std::vector<ExpertKey> keys;
  keys.reserve(layout.n_experts());
  for (int32_t l = 0; l < static_cast<int32_t>(layout.layers().size()); l++) {
    for (int32_t e = 0; e < layout.layer(l).n_experts; e++) keys.push_back({l, e});
  }
  return keys;
}

uint64_t lease_checksum(const ExpertLayout& layout, const Lease& lease) {
  const LayerLayout& layer = layout.layer(lease.key().layer);
  const std::byte* parts[kMaxParts];
  for (size_t i = 0; i < layer.parts.size(); i++) parts[i] = lease.part(static_cast<int>(i));
  return blob_checksum(layer, {parts, layer.parts.size()});
}

}  // namespace

uint64_t blob_checksum(const LayerLayout& layer, std::span<const std::byte* const> parts) {
  ASSERT(parts.size() == layer.parts.size());
  Xxhash64 hash;
  for (size_t i = 0; i < parts.size(); i++) hash.update({parts[i], layer.parts[i].bytes});
  return hash.digest();
}

uint64_t combined_checksum(std::span<const uint64_t> blobs) {
  Xxhash64 hash;
  for (const uint64_t blob : blobs) hash.update(blob);
  return hash.digest();
}

Result<uint64_t> source_checksum(ExpertSource& source, const ExpertLayout& layout, ThreadPool& pool) {
  const std::vector<ExpertKey> keys = keys_of(layout);
  std::vector<uint64_t> blobs(keys.size());
  const auto batch = static_cast<size_t>(std::min(kBatch, source.lease_limit()));
  for (size_t first = 0; first < keys.size(); first += batch) {
    const std::span<const ExpertKey> some = std::span(keys).subspan(first, std::min(batch, keys.size() - first));
    std::vector<Lease> leases(some.size());
    RETURN_IF_ERROR(source.fetch(some, leases));
    pool.for_each(std::ssize(leases), 1, [&](int64_t i, int64_t, int) {
      blobs[first + static_cast<size_t>(i)] = lease_checksum(layout, leases[static_cast<size_t>(i)]);
    });
  }
  RETURN_IF_ERROR(source.health());
  return combined_checksum(blobs);
}

}  // namespace strata::experts
