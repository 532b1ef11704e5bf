// A source that keeps some experts in RAM and has no file behind it: whatever nobody keeps is lost, and asking for it
// fails. It stands for a resident copy in tests of swaps.
#pragma once

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/format.h"
#include "base/mutex.h"
#include "experts/expert_files.h"
#include "experts/swap.h"

namespace strata::test {

class ExchangeSource final : public experts::ExpertSource, public experts::ResidentExchange {
 public:
  // In RAM are the experts of `kept`, with the bytes that `fill` gives.
  ExchangeSource(const experts::ExpertLayout& layout, std::vector<experts::ExpertKey> kept, const FillPart& fill)
      : layout_(layout) {
    for (const experts::ExpertKey& key : kept) ram_[key] = blob(key, fill);
  }
  const char* name() const override { return "exchange"; }

  std::optional<experts::Lease> try_lease(experts::ExpertKey key) override {
    const LockGuard lock(mutex_);
    const std::byte* blob = nullptr;
    if (const auto at = ram_.find(key); at != ram_.end()) blob = at->second.data();
    if (const auto at = overridden_.find(key); at != overridden_.end()) blob = at->second.bytes;
    if (blob == nullptr) return std::nullopt;
    const experts::LayerLayout& layer = layout_.layer(key.layer);
    const std::byte* parts[experts::kMaxParts];
    for (size_t i = 0; i < layer.parts.size(); i++) parts[i] = blob + layer.part_offset(static_cast<int>(i));
    return make_lease(key, 0, {parts, layer.parts.size()});
  }
  Status fetch(std::span<const experts::ExpertKey> keys, std::span<experts::Lease> leases) override {
    for (size_t i = 0; i < keys.size(); i++) {
      std::optional<experts::Lease> lease;
      if (unreadable.count(keys[i]) == 0) lease = try_lease(keys[i]);
      if (!lease) {
        return Error{ErrorCode::kIo, format("expert {} of layer {} is nowhere", keys[i].expert, keys[i].layer)};
      }
      leases[i] = std::move(*lease);
    }
    return {};
  }

  bool holds(experts::ExpertKey key) const override {
    const LockGuard lock(mutex_);
    return ram_.count(key) > 0;
  }
  void begin_exchange(experts::ExpertKey out, experts::ExpertKey in, const device::HostBuffer& bytes,
                      size_t offset) override {
    const LockGuard lock(mutex_);
    ASSERT(ram_.count(in) > 0 && ram_.count(out) == 0 && overridden_.count(out) == 0);
    overridden_[out] = {in, bytes.address() + offset};
  }
  void cancel_exchange(experts::ExpertKey out) override {
    const LockGuard lock(mutex_);
    ASSERT(overridden_.erase(out) == 1);
  }
  void commit_exchange(experts::ExpertKey out) override {
    const LockGuard lock(mutex_);
    const Override from = overridden_.at(out);
    std::vector<std::byte> place = std::move(ram_.at(from.in));
    std::memcpy(place.data(), from.bytes, place.size());
    ram_.erase(from.in);
    ram_[out] = std::move(place);
    overridden_.erase(out);
  }

  size_t n_overridden() const { return overridden_.size(); }
  std::set<experts::ExpertKey> kept() const {
    std::set<experts::ExpertKey> keys;
    for (const auto& [key, bytes] : ram_) keys.insert(key);
    return keys;
  }
  std::set<experts::ExpertKey> unreadable;  // reading them fails

 protected:
  void release(uint32_t) override {}
  void note_async_read(uint32_t, device::Stream&) override {}

 private:
  struct Override {
    experts::ExpertKey in;
    const std::byte* bytes;
  };

  std::vector<std::byte> blob(experts::ExpertKey key, const FillPart& fill) const {
    const experts::LayerLayout& layer = layout_.layer(key.layer);
    std::vector<std::byte> bytes(layer.blob_bytes());
    for (size_t i = 0; i < layer.parts.size(); i++) {
      std::vector<uint8_t> part(layer.parts[i].bytes);
      fill(key, layer.parts[i].kind, part);
      std::memcpy(bytes.data() + layer.part_offset(static_cast<int>(i)), part.data(), part.size());
    }
    return bytes;
  }

  const experts::ExpertLayout& layout_;
  mutable Mutex mutex_;
  std::map<experts::ExpertKey, std::vector<std::byte>> ram_;
  std::map<experts::ExpertKey, Override> overridden_;
};

}  // namespace strata::test
