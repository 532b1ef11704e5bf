// The arena that several engines share: one file in memory that holds every blob.
#pragma once

#include <memory>

#include "experts/arena_locks.h"
#include "experts/shared_arena/opener.h"
#include "experts/sources/permanent.h"

namespace strata::experts {

// Bytes of memory that the arena of a model takes, however many engines use it.
uint64_t shared_arena_bytes(const ExpertLayout& layout);

class SharedArenaSource final : public PermanentSource {
 public:
  // Attaches to the arena, having loaded it if nobody has; see shared_arena::open_arena() for what can go wrong.
  static Result<std::unique_ptr<SharedArenaSource>> create(const shared_arena::OpenSpec& spec);

  const char* name() const override { return "shared arena"; }
  // kIo once the file was cut or written to by another program.
  Status health() const override;

  // Before the first lease, for a device that copies out of the arena: leases are of page-locked memory from then on,
  // as far as the system gives it.
  const ArenaLocks& page_lock(device::Device& device, Clock& clock);

  // What its loader has found the experts' checksum to be (experts/checksum.h).
  uint64_t published_checksum() const { return opened_.checksum; }
  // How it came about and on which pages it lies, for people.
  std::string report() const;

 private:
  SharedArenaSource(const shared_arena::OpenSpec& spec, shared_arena::Opened opened);
  const std::byte* address(ExpertKey key, int part) const override;
  const device::HostBuffer* buffer(ExpertKey key) const override { return locks_.slice_of(layout_.index(key)); }

  shared_arena::Opened opened_;
  ArenaLocks locks_;  // of its payload
};

}  // namespace strata::experts
