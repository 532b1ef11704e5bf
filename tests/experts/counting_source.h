// Sources that count their leases, and can be told to fail.
#pragma once

#include <algorithm>
#include <vector>

#include "experts/source.h"

namespace strata::test {

// Counts what becomes of leases. Each lease has a place of its own; the bytes are the same for all.
class CountingSource : public experts::ExpertSource {
 public:
  const char* name() const override { return "counting"; }
  std::optional<experts::Lease> try_lease(experts::ExpertKey key) override {
    const std::byte* parts[experts::kMaxParts];
    const size_t n = parts_of(key, parts);
    keys_.push_back(key);
    held_++;
    return make_lease(key, static_cast<uint32_t>(keys_.size() - 1), {parts, n});
  }
  Status fetch(std::span<const experts::ExpertKey> keys, std::span<experts::Lease> leases) override {
    for (size_t i = 0; i < keys.size(); i++) leases[i] = *try_lease(keys[i]);
    return {};
  }

  const std::byte* bytes() const { return bytes_; }
  int held() const { return held_; }
  int given() const { return static_cast<int>(keys_.size()); }
  int released() const { return released_; }
  int notes() const { return notes_; }
  experts::ExpertKey last_released() const { return last_released_; }
  experts::ExpertKey last_noted() const { return last_noted_; }
  const device::Stream* last_stream() const { return last_stream_; }

 protected:
  virtual size_t parts_of(experts::ExpertKey, const std::byte** parts) const {
    parts[0] = bytes_;
    return 1;
  }
  void release(uint32_t place) override {
    held_--;
    released_++;
    last_released_ = keys_[place];
  }
  void note_async_read(uint32_t place, device::Stream& stream) override {
    notes_++;
    last_noted_ = keys_[place];
    last_stream_ = &stream;
  }

 private:
  std::byte bytes_[8] = {};
  std::vector<experts::ExpertKey> keys_;  // by place
  int held_ = 0;
  int released_ = 0;
  int notes_ = 0;
  experts::ExpertKey last_released_, last_noted_;
  const device::Stream* last_stream_ = nullptr;
};

// Counts, with the bytes of another source, and fails as often as it is told to.
class UnreliableSource final : public CountingSource {
 public:
  UnreliableSource(experts::ExpertSource& inner, const experts::ExpertLayout& layout)
      : inner_(inner), layout_(layout) {}

  int failing_fetches = 0;        // that many of the next ones fail, after some leases were made
  bool unhealthy = false;

  Status fetch(std::span<const experts::ExpertKey> keys, std::span<experts::Lease> leases) override {
    if (failing_fetches == 0) return CountingSource::fetch(keys, leases);
    failing_fetches--;
    for (size_t i = 0; i + 1 < keys.size(); i++) leases[i] = *try_lease(keys[i]);
    for (experts::Lease& lease : leases) lease.release();
    return Error{ErrorCode::kIo, "cannot read the experts of model.gguf"};
  }
  Status health() const override {
    if (unhealthy) return Error{ErrorCode::kIo, "model.gguf was cut"};
    return {};
  }

 private:
  size_t parts_of(experts::ExpertKey key, const std::byte** parts) const override {
    const experts::Lease lease = *inner_.try_lease(key);
    const size_t n = layout_.layer(key.layer).parts.size();
    for (size_t i = 0; i < n; i++) parts[i] = lease.part(static_cast<int>(i));
    return n;
  }

  experts::ExpertSource& inner_;
  const experts::ExpertLayout& layout_;
};

// The bytes of another source through few leases: an expert is there only while it is among the last `capacity` that
// were fetched. Fetching more than its limit at once fails.
class LimitedSource final : public experts::ExpertSource {
 public:
  LimitedSource(experts::ExpertSource& inner, const experts::ExpertLayout& layout, int64_t limit, size_t capacity)
      : inner_(inner), layout_(layout), limit_(limit), capacity_(capacity) {}
  const char* name() const override { return "limited"; }

  int64_t lease_limit() const override { return limit_; }
  size_t hint(std::span<const experts::ExpertKey> keys, experts::HintKind) override {
    hinted += static_cast<int>(keys.size());
    return keys.size();
  }
  std::optional<experts::Lease> try_lease(experts::ExpertKey key) override {
    if (std::find(there_.begin(), there_.end(), key) == there_.end()) return {};
    ready++;
    return lease(key);
  }
  Status fetch(std::span<const experts::ExpertKey> keys, std::span<experts::Lease> leases) override {
    if (static_cast<int64_t>(keys.size()) > limit_) return Error{ErrorCode::kNoMemory, "too many at once"};
    for (size_t i = 0; i < keys.size(); i++) {
      leases[i] = lease(keys[i]);
      there_.push_back(keys[i]);
      fetched++;
    }
    if (there_.size() > capacity_) there_.erase(there_.begin(), there_.end() - static_cast<std::ptrdiff_t>(capacity_));
    return {};
  }

  int hinted = 0;   // keys
  int ready = 0;    // leases without a fetch
  int fetched = 0;  // keys
  int held = 0;

 protected:
  void release(uint32_t) override { held--; }
  void note_async_read(uint32_t, device::Stream&) override {}

 private:
  experts::Lease lease(experts::ExpertKey key) {
    const experts::Lease inner = *inner_.try_lease(key);
    const std::byte* parts[experts::kMaxParts];
    const size_t n = layout_.layer(key.layer).parts.size();
    for (size_t i = 0; i < n; i++) parts[i] = inner.part(static_cast<int>(i));
    held++;
    return make_lease(key, 0, {parts, n});
  }

  experts::ExpertSource& inner_;
  const experts::ExpertLayout& layout_;
  int64_t limit_;
  size_t capacity_;
  std::vector<experts::ExpertKey> there_;
};

}  // namespace strata::test
