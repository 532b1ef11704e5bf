// Leases of sources whose bytes stay where they are as long as the source lives: nothing to release, no fence to keep.
// Copies out of them have run before the source dies.
#pragma once

#include "experts/source.h"

namespace strata::experts {

class PermanentSource : public ExpertSource {
 public:
  PermanentSource(const ExpertLayout& layout, Stats& stats, Counter counter)
      : layout_(layout), stats_(stats), counter_(counter) {}

  std::optional<Lease> try_lease(ExpertKey key) override {
    const LayerLayout& layer = layout_.layer(key.layer);
    ASSERT(key.expert >= 0);
    ASSERT(key.expert < layer.n_experts);
    const std::byte* parts[kMaxParts];
    for (size_t i = 0; i < layer.parts.size(); i++) parts[i] = address(key, static_cast<int>(i));
    stats_.add(counter_);
    return make_lease(key, 0, {parts, layer.parts.size()}, buffer(key));
  }

  Lease::HostPlace pinned_place(ExpertKey key) const override {
    const device::HostBuffer* in = buffer(key);
    if (in == nullptr || in->kind() != device::MemoryKind::kPinned) return {};
    const LayerLayout& layer = layout_.layer(key.layer);
    const std::byte* first = address(key, 0);
    for (int i = 0; i < static_cast<int>(layer.parts.size()); i++) {
      if (address(key, i) != first + layer.part_offset(i)) return {};
    }
    return {in, static_cast<size_t>(first - in->address())};
  }

  Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) override {
    ASSERT(keys.size() == leases.size());
    RETURN_IF_ERROR(health());
    for (size_t i = 0; i < keys.size(); i++) leases[i] = *try_lease(keys[i]);
    return {};
  }

 protected:
  virtual const std::byte* address(ExpertKey key, int part) const = 0;
  // The host buffer that all parts of the expert lie in; null where there is none.
  virtual const device::HostBuffer* buffer(ExpertKey) const { return nullptr; }
  void release(uint32_t) override {}
  void note_async_read(uint32_t, device::Stream&) override {}

  const ExpertLayout& layout_;
  Stats& stats_;

 private:
  Counter counter_;
};

}  // namespace strata::experts
