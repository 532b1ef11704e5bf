#include "experts/cache.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/format.h"
#include "base/mutation.h"

namespace strata::experts {

using device::MemoryKind;

namespace {

int64_t most_experts(const ExpertLayout& layout) {
  int64_t most = 0;
  for (const LayerLayout& layer : layout.layers()) most = std::max<int64_t>(most, layer.n_experts);
  return most;
}
size_t table_bytes(const ExpertLayout& layout) {
  return layout.layers().size() * static_cast<size_t>(most_experts(layout)) * sizeof(int32_t);
}
size_t offsets_bytes(int64_t n_slots) { return static_cast<size_t>(n_slots) * sizeof(int64_t); }

CacheBytes beside_slots(const ExpertLayout& layout, int64_t n_slots, uint64_t largest_slot_bytes) {
  // One pinned buffer serves blobs and the offsets of all slots.
  const size_t piece = std::max<size_t>(largest_slot_bytes, offsets_bytes(n_slots));
  return {.device = offsets_bytes(n_slots) + table_bytes(layout),
          .host = table_bytes(layout) + device::Uploader::bytes_needed(piece)};
}

}  // namespace

Result<std::unique_ptr<ExpertCache>> ExpertCache::create(const CacheSpec& spec, SlotPlan plan) {
  ASSERT(plan.n_slots() > 0);
  std::unique_ptr<ExpertCache> cache(new ExpertCache(spec, std::move(plan)));
  RETURN_IF_ERROR(cache->allocate());
  RETURN_IF_ERROR(cache->upload_offsets());
  RETURN_IF_ERROR(cache->publish());
  return cache;
}

CacheBytes ExpertCache::bytes_needed(const ExpertLayout& layout, const SlotPlan& plan) {
  if (plan.n_slots() == 0) return {};
  CacheBytes bytes = beside_slots(layout, plan.n_slots(), plan.largest_slot_bytes());
  bytes.device += plan.bytes();
  return bytes;
}

CacheBytes ExpertCache::overhead(const ExpertLayout& layout) {
  int64_t n_experts = 0;
  for (const LayerLayout& layer : layout.layers()) n_experts += layer.n_experts;
  return beside_slots(layout, n_experts, align_up(layout.largest_blob_bytes(), kSlotAlignment));
}

Status ExpertCache::allocate() {
  const size_t table = table_bytes(spec_.layout);
  n_experts_ = most_experts(spec_.layout);
  table_.assign(table / sizeof(int32_t), -1);
  ASSIGN_OR_RETURN(memory_, spec_.device.allocate(plan_.bytes(), "the expert cache"));
  ASSIGN_OR_RETURN(offsets_, spec_.device.allocate(offsets_bytes(plan_.n_slots()), "expert slots"));
  ASSIGN_OR_RETURN(device_table_, spec_.device.allocate(table, "the table of cached experts"));
  ASSIGN_OR_RETURN(staged_table_,
                   spec_.device.allocate_host(table, MemoryKind::kPinned, "the table of cached experts"));
  const size_t piece = std::max<size_t>(plan_.largest_slot_bytes(), offsets_bytes(plan_.n_slots()));
  ASSIGN_OR_RETURN(uploader_, device::Uploader::create(spec_.device, spec_.stream, piece, "experts on their way"));
  return {};
}

Status ExpertCache::upload_offsets() {
  return uploader_->put(*offsets_, 0, offsets_bytes(plan_.n_slots()), [&](std::span<std::byte> to) -> Status {
    for (size_t i = 0; i < plan_.slots().size(); i++) {
      const auto offset = static_cast<int64_t>(plan_.slots()[i].offset);
      std::memcpy(to.data() + i * sizeof offset, &offset, sizeof offset);
    }
    return {};
  });
}

Status ExpertCache::fill() {
  RETURN_IF_ERROR(upload(0));
  mark(0, true);
  Status status = publish();
  if (!status.ok()) mark(0, false);
  return status;
}

Result<Loan> ExpertCache::lend(uint64_t bytes) {
  ASSERT(bytes > 0);
  ASSERT(!lent());
  ASSERT(!withdrawn());
  const std::optional<int64_t> n = plan_.slots_to_lend(bytes, spec_.min_slots);
  if (!n) {
    return Error{ErrorCode::kNoMemory,
                 format("{} of the expert cache on {} cannot be lent: beyond the {} slots that it keeps it has {}; "
                        "lower --cache-min-slots",
                        format_bytes(bytes), spec_.device.name(), spec_.min_slots,
                        format_bytes(plan_.lendable_bytes(spec_.min_slots)))};
  }
  const int64_t first = plan_.n_slots() - *n;
  mark(first, false);
  if (Status status = publish(); !status.ok()) {
    mark(first, true);
    return std::move(status).error();
  }
  const uint64_t offset = plan_.slots()[static_cast<size_t>(first)].offset;
  loan_ = {memory_.get(), offset, plan_.bytes() - offset, *n};
  spec_.stats.add(Counter::kCacheLoans);
  spec_.stats.add(Counter::kCacheLentBytes, static_cast<int64_t>(loan_.bytes));
  spec_.stats.add(Counter::kCacheLentSlots, loan_.n_slots);
  return loan_;
}

Status ExpertCache::restore() {
  ASSERT(lent());
  const int64_t first = plan_.n_slots() - loan_.n_slots;
  RETURN_IF_ERROR(upload(first));
  mark(first, true);
  if (Status status = publish(); !status.ok()) {
    mark(first, false);
    return status;
  }
  spec_.stats.add(Counter::kCacheLentSlots, -loan_.n_slots);
  loan_ = {};
  return {};
}

Status ExpertCache::withdraw(std::span<const int32_t> slots) {
  ASSERT(!lent());
  for (const int32_t slot : slots) {
    ASSERT(entry(plan_.slots()[static_cast<size_t>(slot)].key) == slot);
    entry(plan_.slots()[static_cast<size_t>(slot)].key) = -1;
  }
  if (Status status = publish(); !status.ok()) {
    for (const int32_t slot : slots) entry(plan_.slots()[static_cast<size_t>(slot)].key) = slot;
    return status;
  }
  n_withdrawn_ += static_cast<int64_t>(slots.size());
  return {};
}

Status ExpertCache::place(std::span<const SlotExpert> experts) {
  for (const SlotExpert& expert : experts) {
    ASSERT(plan_.slots()[static_cast<size_t>(expert.slot)].key.layer == expert.key.layer);
    ASSERT(entry(expert.key) == -1);
    entry(expert.key) = expert.slot;
  }
  if (Status status = publish(); !status.ok()) {
    for (const SlotExpert& expert : experts) entry(expert.key) = -1;
    return status;
  }
  for (const SlotExpert& expert : experts) plan_.set_expert(expert.slot, expert.key);
  n_withdrawn_ -= static_cast<int64_t>(experts.size());
  return {};
}

Status ExpertCache::upload(int64_t first) {
  for (const Slot& slot : std::span(plan_.slots()).subspan(static_cast<size_t>(first))) {
    RETURN_IF_ERROR(upload_slot(slot));
    spec_.stats.add(Counter::kCacheUploads);
    spec_.stats.add(Counter::kCacheUploadBytes,
                    static_cast<int64_t>(spec_.layout.layer(slot.key.layer).blob_bytes()));
  }
  return spec_.source.health();
}

Status ExpertCache::upload_slot(const Slot& slot) {
  const LayerLayout& layer = spec_.layout.layer(slot.key.layer);
  if (const Lease::HostPlace from = spec_.source.pinned_place(slot.key); from.buffer != nullptr) {
    spec_.stream.copy(*memory_, slot.offset, *from.buffer, from.offset, layer.blob_bytes());
    return {};
  }
  Lease lease;
  RETURN_IF_ERROR(spec_.source.fetch({&slot.key, 1}, {&lease, 1}));
  // The lease may go when the pinned buffer has the bytes.
  return uploader_->put(*memory_, slot.offset, layer.blob_bytes(), [&](std::span<std::byte> to) -> Status {
    for (size_t i = 0; i < layer.parts.size(); i++) {
      std::memcpy(to.data() + layer.part_offset(static_cast<int>(i)), lease.part(static_cast<int>(i)),
                  layer.parts[i].bytes);
    }
    return {};
  });
}

void ExpertCache::mark(int64_t first, bool resident) {
  for (int64_t i = first; i < plan_.n_slots(); i++) {
    entry(plan_.slots()[static_cast<size_t>(i)].key) = resident ? static_cast<int32_t>(i) : -1;
  }
}

Status ExpertCache::publish() {
  const bool waits = !mutated(Mutation::kLoanNotAwaited);
  // No earlier upload reads the pinned copy of the table then.
  if (waits) RETURN_IF_ERROR(spec_.stream.synchronize());
  const size_t bytes = table_.size() * sizeof(int32_t);
  std::memcpy(staged_table_->write<int32_t>(0, table_.size()).span().data(), table_.data(), bytes);
  spec_.stream.copy(*device_table_, 0, *staged_table_, 0, bytes);
  if (waits) RETURN_IF_ERROR(spec_.stream.synchronize());
  version_++;
  return {};
}

int32_t ExpertCache::slot(ExpertKey key) const {
  ASSERT(key.expert >= 0);
  ASSERT(key.expert < n_experts_);
  return table_[static_cast<size_t>(key.layer * n_experts_ + key.expert)];
}

int64_t ExpertCache::n_resident() const {
  return std::count_if(table_.begin(), table_.end(), [](int32_t slot) { return slot >= 0; });
}

device::ExpertSlots ExpertCache::slots() const {
  return {memory_.get(), device::view_of<int64_t>(*offsets_, 1, plan_.n_slots())};
}

device::In<int32_t> ExpertCache::slot_of(int32_t layer) const {
  const auto offset = static_cast<size_t>(layer * n_experts_) * sizeof(int32_t);
  return device::view_of<int32_t>(*device_table_, 1, spec_.layout.layer(layer).n_experts, offset);
}

}  // namespace strata::experts
