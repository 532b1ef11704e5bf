#include "experts/shared_arena/identity.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/format.h"
#include "base/xxhash64.h"

namespace strata::experts::shared_arena {
namespace {

void add_text(Xxhash64& hash, std::string_view text) {
  hash.update(text.size());
  hash.update(std::as_bytes(std::span(text)));
}

uint64_t geometry_of(const ExpertLayout& layout) {
  Xxhash64 hash;
  hash.update(layout.layers().size());
  for (const LayerLayout& layer : layout.layers()) {
    hash.update(static_cast<uint64_t>(layer.n_experts));
    hash.update(layer.parts.size());
    for (const BlobPart& part : layer.parts) {
      hash.update(static_cast<uint64_t>(part.kind));
      add_text(hash, quant::info(part.type).name);
      hash.update(static_cast<uint64_t>(part.rows));
      hash.update(static_cast<uint64_t>(part.cols));
      hash.update(part.bytes);
    }
  }
  return hash.digest();
}

void add_tensors(Xxhash64& hash, const gguf::Model& model) {
  for (const gguf::Shard& shard : model.shards()) {
    hash.update(shard.file_bytes);
    hash.update(shard.data_offset);
  }
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    add_text(hash, tensor.name);
    add_text(hash, quant::info(tensor.type).name);
    for (const uint64_t n : tensor.ne) hash.update(n);
    hash.update(static_cast<uint64_t>(tensor.shard));
    hash.update(tensor.file_offset);
    hash.update(tensor.bytes);
  }
}

// A block from `offset` on, as far as there are `bytes`.
Status add_sample(Xxhash64& hash, const gguf::Shard& shard, uint64_t offset, uint64_t bytes) {
  std::byte block[kSampleBytes];
  const std::span<std::byte> sample(block, std::min(bytes, kSampleBytes));
  RETURN_IF_ERROR(shard.file->read_exact(offset, sample));
  hash.update(sample);
  return {};
}

Status add_file_samples(Xxhash64& hash, const gguf::Shard& shard) {
  const uint64_t last = shard.file_bytes - std::min(shard.file_bytes, kSampleBytes);
  for (uint64_t i = 0; i < kFileSamples; i++) {
    const uint64_t offset = last / (kFileSamples - 1) * i;
    RETURN_IF_ERROR(add_sample(hash, shard, offset, shard.file_bytes - offset));
  }
  return add_sample(hash, shard, last, shard.file_bytes - last);
}

Status add_expert_samples(Xxhash64& hash, const gguf::Model& model, const LayerLayout& layer) {
  for (const BlobPart& part : layer.parts) {
    const BlobPart::Place& place = part.places[static_cast<size_t>(layer.n_experts / 2)];
    const gguf::Shard& shard = model.shards()[static_cast<size_t>(place.shard)];
    RETURN_IF_ERROR(add_sample(hash, shard, place.offset, part.bytes));
  }
  return {};
}

}  // namespace

uint64_t file_bytes(uint64_t payload_bytes) { return kHeaderBytes + align_up(payload_bytes, kSharedPage); }

Result<Identity> identity_of(const gguf::Model& model, const ExpertLayout& layout) {
  Xxhash64 pack;
  add_tensors(pack, model);
  for (const gguf::Shard& shard : model.shards()) RETURN_IF_ERROR(add_file_samples(pack, shard));
  for (const LayerLayout& layer : layout.layers()) RETURN_IF_ERROR(add_expert_samples(pack, model, layer));
  return Identity{.file_bytes = file_bytes(layout.total_bytes()),
                  .payload_bytes = layout.total_bytes(),
                  .geometry = geometry_of(layout),
                  .fingerprint = pack.digest()};
}

}  // namespace strata::experts::shared_arena
