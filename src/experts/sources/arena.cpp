// The private arena: one range of RAM that holds every blob, layer after layer, expert after expert.
#include <atomic>

#include "base/format.h"
#include "base/mutex.h"
#include "experts/sources/permanent.h"

namespace strata::experts {
namespace {

class ArenaSource final : public PermanentSource {
 public:
  ArenaSource(const ExpertLayout& layout, Stats& stats) : PermanentSource(layout, stats, Counter::kArenaLeases) {}
  const char* name() const override { return "arena"; }

  Status load(const gguf::Model& model, device::Device& host, ThreadPool& pool) {
    ASSIGN_OR_RETURN(bytes_, host.allocate(layout_.total_bytes(), "the expert arena"));
    for (int32_t l = 0; l < static_cast<int32_t>(layout_.layers().size()); l++) {
      RETURN_IF_ERROR(load_layer(model, pool, l));
    }
    return {};
  }

 private:
  // One blob is read by one worker, a read per part; the first failure ends the load.
  Status load_layer(const gguf::Model& model, ThreadPool& pool, int32_t l) {
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

  Status load_blob(const gguf::Model& model, ExpertKey key) {
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

  const std::byte* address(ExpertKey key, int part) const override {
    return bytes_->address() + layout_.packed_offset(key) + layout_.layer(key.layer).part_offset(part);
  }

  std::unique_ptr<device::Buffer> bytes_;
};

}  // namespace

Result<std::unique_ptr<ExpertSource>> make_arena_source(const gguf::Model& model, const ExpertLayout& layout,
                                                        device::Device& host, ThreadPool& pool, Stats& stats) {
  auto arena = std::make_unique<ArenaSource>(layout, stats);
  RETURN_IF_ERROR(arena->load(model, host, pool));
  return std::unique_ptr<ExpertSource>(std::move(arena));
}

}  // namespace strata::experts
