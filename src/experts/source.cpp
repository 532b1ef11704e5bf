#include "experts/source.h"

namespace strata::experts {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  source_ = std::exchange(other.source_, nullptr);
  key_ = other.key_;
  place_ = other.place_;
  buffer_ = other.buffer_;
  for (int i = 0; i < kMaxParts; i++) parts_[i] = other.parts_[i];
  return *this;
}

void Lease::note_async_read(device::Stream& stream) {
  ASSERT(valid());
  source_->note_async_read(place_, stream);
}

void Lease::release() {
  if (source_ != nullptr) std::exchange(source_, nullptr)->release(place_);
}

size_t ExpertSource::hint(std::span<const ExpertKey>, HintKind) { return 0; }

Lease ExpertSource::make_lease(ExpertKey key, uint32_t place, std::span<const std::byte* const> parts,
                               const device::HostBuffer* buffer) {
  ASSERT(parts.size() <= kMaxParts);
  Lease lease;
  lease.source_ = this;
  lease.key_ = key;
  lease.place_ = place;
  lease.buffer_ = buffer;
  for (size_t i = 0; i < parts.size(); i++) {
    const bool in_buffer =
        buffer == nullptr || (parts[i] >= buffer->address() && parts[i] < buffer->address() + buffer->bytes());
    ASSERT(in_buffer);
    lease.parts_[i] = parts[i];
  }
  return lease;
}

}  // namespace strata::experts
