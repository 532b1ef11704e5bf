// Where expert bytes are read from, and the leases through which they are reachable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/stats.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "experts/expert.h"

namespace strata::experts {

class ExpertSource;

// The right to read one blob. The bytes stay valid while the lease lives, and beyond it until every copy noted with
// note_async_read has run. Movable; releasing is the destructor's.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { release(); }

  bool valid() const { return source_ != nullptr; }
  ExpertKey key() const { return key_; }
  // Bytes of part i of the layer's layout; no alignment is promised.
  const std::byte* part(int i) const { return parts_[i]; }
  // Where part i lies in a host buffer, so that a copy can be queued straight out of it: the copy, then
  // note_async_read. {null, 0} for bytes that lie in none.
  struct HostPlace {
    const device::HostBuffer* buffer = nullptr;
    size_t offset = 0;
  };
  HostPlace host_place(int i) const {
    if (buffer_ == nullptr) return {};
    return {buffer_, static_cast<size_t>(parts_[i] - buffer_->address())};
  }
  // Puts a fence on the bytes: a copy out of them was just queued on the stream.
  void note_async_read(device::Stream& stream);
  void release();

 private:
  friend class ExpertSource;
  ExpertSource* source_ = nullptr;
  ExpertKey key_;
  uint32_t place_ = 0;  // the source's own name for where the blob is
  const device::HostBuffer* buffer_ = nullptr;  // that all parts lie in
  const std::byte* parts_[kMaxParts] = {};
};

// Whether hinted experts will be asked for, or only may be. Reads of guesses stand back for all others.
enum class HintKind { kCertain, kGuess };

// Yields the bytes of experts. Thread-safe. Must outlive its leases.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;
  virtual const char* name() const = 0;

  // A lease without I/O and without blocking, or nothing.
  virtual std::optional<Lease> try_lease(ExpertKey key) = 0;
  // A lease for each key, reading what is not in memory; may block. Keys are distinct; leases has as many elements.
  // On failure no lease of the call is held, and the error names the file.
  virtual Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) = 0;

  // The caller will or may ask for these soon: a source that reads may start to, where that takes nothing away from
  // others. Returns how many it reads for this call. Never blocks, never fails, and changes no result. Keys may repeat.
  virtual size_t hint(std::span<const ExpertKey> keys, HintKind kind);
  // How many leases at once it serves with the memory it was given; a caller that holds more makes it grow, or fail.
  virtual int64_t lease_limit() const { return INT64_MAX; }

  // Where the blob lies, packed as LayerLayout says, for as long as the source lives, if it lies so in page-locked
  // memory: devices may read it there at any time. {null, 0} if it does not.
  virtual Lease::HostPlace pinned_place(ExpertKey) const { return {}; }

  // What it has been waiting for, for longer than a person takes for a moment: "the drive"; else null. Any thread.
  virtual const char* waiting_for() const { return nullptr; }

  // An error once bytes that were handed out can't be trusted (a mapped file was cut). A step asks before it publishes
  // a token.
  virtual Status health() const { return {}; }

 protected:
  // `buffer` is the host buffer that all parts lie in, if there is one.
  Lease make_lease(ExpertKey key, uint32_t place, std::span<const std::byte* const> parts,
                   const device::HostBuffer* buffer = nullptr);
  virtual void release(uint32_t place) = 0;
  virtual void note_async_read(uint32_t place, device::Stream& stream) = 0;
  friend class Lease;
};

// The pages of the model's files, mapped read-only. Costs no RAM of its own; the system reads pages as they are
// touched.
Result<std::unique_ptr<ExpertSource>> make_mapped_source(const gguf::Model& model, const ExpertLayout& layout,
                                                         Stats& stats);

}  // namespace strata::experts
