// Every expert in one range of RAM.
#pragma once

#include <memory>
#include <span>

#include "experts/arena_locks.h"
#include "experts/sources/permanent.h"
#include "gguf/gguf.h"

namespace strata::experts {

// Every blob copied into one range of RAM at start, layer after layer, expert after expert, with 64-byte aligned parts.
class ArenaSource final : public PermanentSource {
 public:
  // Takes memory of `host` and reads with the threads of `pool`; kIo names the file and offset of a failed read,
  // kNoMemory both sizes.
  static Result<std::unique_ptr<ArenaSource>> create(const gguf::Model& model, const ExpertLayout& layout,
                                                     device::Device& host, ThreadPool& pool, Stats& stats);

  const char* name() const override { return "arena"; }
  std::span<const std::byte> bytes() const { return {bytes_->address(), bytes_->bytes()}; }

  // Before the first lease, for a device that copies out of the arena: leases are of page-locked memory from then on,
  // as far as the system gives it.
  const ArenaLocks& page_lock(device::Device& device, Clock& clock);

 private:
  ArenaSource(const ExpertLayout& layout, Stats& stats) : PermanentSource(layout, stats, Counter::kArenaLeases) {}
  Status load(const gguf::Model& model, ThreadPool& pool);
  Status load_layer(const gguf::Model& model, ThreadPool& pool, int32_t layer);
  Status load_blob(const gguf::Model& model, ExpertKey key);
  const std::byte* address(ExpertKey key, int part) const override;
  const device::HostBuffer* buffer(ExpertKey key) const override { return locks_.slice_of(layout_.index(key)); }

  std::unique_ptr<device::Buffer> bytes_;
  ArenaLocks locks_;  // of them
};

}  // namespace strata::experts
