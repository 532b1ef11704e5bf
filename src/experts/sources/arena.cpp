#include "experts/sources/arena.h"

#include <atomic>

#include "base/format.h"
#include "base/mutex.h"

namespace strata::experts {

Result<std::unique_ptr<ArenaSource>> ArenaSource::create(const gguf::Model& model, const ExpertLayout& layout,
                                                         device::Device& host, ThreadPool& pool, Stats& stats) {
  std::unique_ptr<ArenaSource> arena(new ArenaSource(layout, stats));
  ASSIGN_OR_RETURN(arena->bytes_, host.allocate(layout.total_bytes(), "the expert arena"));
  RETURN_IF_ERROR(arena->load(model, pool));
  return arena;
}

Status ArenaSource::load(const gguf::Model& model, ThreadPool& pool) {
  for (int32_t l = 0; l < static_cast<int32_t>(layout_.layers().size()); l++) {
    RETURN_IF_ERROR(load_layer(model, pool, l));
  }
  return {};
}

const ArenaLocks& ArenaSource::page_lock(device::Device& device, Clock& clock) {
  locks_ = ArenaLocks({.device = device,
                       .layout = layout_,
                       .arena = bytes(),
                       .mapped = device::MappedAs::kWritable,
                       .clock = clock});
  return locks_;
}

// One blob is read by one worker, a read per part; the first failure ends the load.
Status ArenaSource::load_layer(const gguf::Model& model, ThreadPool& pool, int32_t l) {
  const LayerLayout& layer = layout_.layer(l);
  std::atomic<bool> failed{false};
  Mutex mutex;
  Status first_error;
  pool.for_each(layer.n_experts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end && !failed.load(std::memory_order_relaxed); e++) {
      Status status = load_blob(model, {l, static_cast<int32_t>(e)});
      if (status.ok()) continue;
      const LockGuard lock(mutex);
      if (!failed.exchange(true)) first_error = std::move(status);
    }
  });
  return first_error;
}

Status ArenaSource::load_blob(const gguf::Model& model, ExpertKey key) {
  const LayerLayout& layer = layout_.layer(key.layer);
  for (size_t i = 0; i < layer.parts.size(); i++) {
    const BlobPart& part = layer.parts[i];
    const BlobPart::Place place = part.places[static_cast<size_t>(key.expert)];
    auto* to = const_cast<std::byte*>(address(key, static_cast<int>(i)));
    const gguf::Shard& shard = model.shards()[static_cast<size_t>(place.shard)];
    RETURN_IF_ERROR(shard.file->read_exact(place.offset, {to, part.bytes}));
    stats_.add(Counter::kFileReads);
    stats_.add(Counter::kFileReadBytes, static_cast<int64_t>(part.bytes));
  }
  return {};
}

const std::byte* ArenaSource::address(ExpertKey key, int part) const {
  return bytes_->address() + layout_.packed_offset(key) + layout_.layer(key.layer).part_offset(part);
}

}  // namespace strata::experts
