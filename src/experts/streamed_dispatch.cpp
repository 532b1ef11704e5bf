#include "experts/streamed_dispatch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/activity.h"
#include "base/mutation.h"
#include "experts/blob.h"
#include "experts/cache.h"

namespace strata::experts {

using device::MemoryKind;

namespace {

size_t tables_bytes(const DispatchLimits& limits, const RingPlan& ring) {
  return static_cast<size_t>(ring.n_banks * limits.n_experts) * sizeof(int32_t);
}
size_t offsets_bytes(const RingPlan& ring) { return static_cast<size_t>(ring.n_places()) * sizeof(int64_t); }
// One pinned buffer serves blobs and the offsets of all places.
size_t piece_bytes(const RingPlan& ring) { return std::max<size_t>(ring.place_bytes, offsets_bytes(ring)); }

// All parts of a blob lie in the same buffer, or in none.
bool lies_pinned(const Lease& lease) {
  const device::HostBuffer* buffer = lease.host_place(0).buffer;
  return buffer != nullptr && buffer->kind() == MemoryKind::kPinned;
}

}  // namespace

Result<std::unique_ptr<StreamedDispatch>> StreamedDispatch::create(const DispatchSpec& spec, const DeviceRows& rows,
                                                                   const RoutingCopy& routing) {
  ASSERT(!spec.ring.empty());
  std::unique_ptr<StreamedDispatch> dispatch(new StreamedDispatch(spec, rows, routing));
  RETURN_IF_ERROR(dispatch->allocate());
  RETURN_IF_ERROR(dispatch->clear_tables());
  dispatch->make_tasks();
  return dispatch;
}

DispatchBytes StreamedDispatch::bytes_needed(const DispatchLimits& limits, const RingPlan& ring) {
  if (ring.empty()) return {};
  const size_t tables = tables_bytes(limits, ring);
  return {.device = tables + offsets_bytes(ring), .host = tables + device::Uploader::bytes_needed(piece_bytes(ring))};
}

StreamedDispatch::~StreamedDispatch() {
  if (copies_) static_cast<void>(copies_->synchronize());
}

Status StreamedDispatch::allocate() {
  device::Device& device = spec_.device;
  const size_t tables = tables_bytes(spec_.limits, spec_.ring);
  copies_ = device.make_stream("experts");
  for (Bank& bank : banks_) {
    bank.full = device.make_event();
    bank.free = device.make_event();
  }
  ASSIGN_OR_RETURN(tables_, device.allocate(tables, "tables of streamed experts"));
  ASSIGN_OR_RETURN(staged_tables_, device.allocate_host(tables, MemoryKind::kPinned, "tables of streamed experts"));
  ASSIGN_OR_RETURN(offsets_, device.allocate(offsets_bytes(spec_.ring), "places of streamed experts"));
  ASSIGN_OR_RETURN(uploader_,
                   device::Uploader::create(device, *copies_, piece_bytes(spec_.ring), "experts on their way"));
  // Half of what the source has room for: the other half is for what it reads meanwhile.
  const int64_t group = std::min(spec_.ring.bank_places, std::max<int64_t>(spec_.lease_limit() / 2, 1));
  leases_.resize(static_cast<size_t>(group));
  keys_.reserve(leases_.size());
  next_keys_.reserve(leases_.size());
  return {};
}

// A step whose copies fail computes from the tables of steps before; there have to be such.
Status StreamedDispatch::clear_tables() {
  const size_t n = tables_->bytes() / sizeof(int32_t);
  {
    const auto tables = staged_tables_->write<int32_t>(0, n);
    std::fill_n(tables.span().data(), n, -1);
  }
  copies_->copy(*tables_, 0, *staged_tables_, 0, tables_->bytes());
  return copies_->synchronize();
}

void StreamedDispatch::make_tasks() {
  tasks_.resize(spec_.layout.layers().size());
  for (size_t layer = 0; layer < tasks_.size(); layer++) {
    CountTask& task = tasks_[layer];
    task.layer = static_cast<int32_t>(layer);
    task.task = {.name = "count hits",
                 .run = [this, &task]() -> Status {
                   const int64_t misses = RoutingCopy::Reading(routing_, task.layer).count();
                   spec_.stats.add(Counter::kStreamedRows, misses);
                   return {};
                 },
                 .ranges = routing_.ranges()};
  }
}

void StreamedDispatch::set_capturing(bool on) {
  capturing_ = on;
  memory_ = on ? offsets_.get() : nullptr;  // any memory of the device stands for the ring: nothing of this runs
}

void StreamedDispatch::use_ring(device::Memory& memory, size_t offset) {
  ASSERT(offset <= memory.bytes());
  ASSERT(spec_.ring.bytes() <= memory.bytes() - offset);
  if (memory_ == &memory && offset_ == offset) return;
  memory_ = &memory;
  offset_ = offset;
  started_ = true;
  upload_offsets();
}

void StreamedDispatch::upload_offsets() {
  const Status queued = uploader_->put(*offsets_, 0, offsets_bytes(spec_.ring), [&](std::span<std::byte> to) -> Status {
    std::byte* at = to.data();
    for (int64_t bank = 0; bank < spec_.ring.n_banks; bank++) {
      for (int64_t place = 0; place < spec_.ring.bank_places; place++) {
        const auto offset = static_cast<int64_t>(offset_ + spec_.ring.offset(bank, place));
        std::memcpy(at, &offset, sizeof offset);
        at += sizeof offset;
      }
    }
    return {};
  });
  ASSERT(queued.ok());
}

void StreamedDispatch::run(device::Stream& stream, int32_t layer, const device::In<int32_t>& ids,
                           const device::In<float>& weights, const device::In<float>& x, const device::InOut<float>& y,
                           const device::In<int32_t>& live, const ExpertFormula& formula, const NextLayer*) {
  ASSERT(ids.stride == spec_.limits.n_used);
  ASSERT(x.stride == spec_.limits.dim);
  ASSERT(memory_ != nullptr);
  const LayerRows rows{layer, ids, x, live, formula};
  if (capturing_) {
    enqueue_cached(stream, rows);
    enqueue_bank(stream, rows, 0);
    return;
  }
  started_ = true;
  if (failed_) return;
  routing_.copy_out(stream, layer, ids, live);
  const device::Ticket counted = stream.host_task(tasks_[static_cast<size_t>(layer)].task);
  enqueue_cached(stream, rows);
  if (Status status = enqueue_missing(stream, rows); !status.ok()) {
    failed_ = true;
    return stream.abort(std::move(status).error());
  }
  // The next layer's routing goes where this one's is read.
  stream.wait(counted);
  stream.enqueue(
      device::Combine{.rows = rows_.outputs(rows.pairs()), .weights = weights, .ids = ids, .live = live, .x = y});
}

void StreamedDispatch::enqueue_cached(device::Stream& stream, const LayerRows& rows) const {
  if (spec_.cache == nullptr) return;
  rows_.enqueue(stream, rows, spec_.cache->slots(), spec_.cache->slot_of(rows.layer));
}

Status StreamedDispatch::enqueue_missing(device::Stream& stream, const LayerRows& rows) {
  int32_t expert = 0;
  for (gather(rows.layer, expert, keys_); !keys_.empty(); gather(rows.layer, expert, keys_)) {
    const size_t bank = next_bank_;
    next_bank_ = (bank + 1) % banks_.size();
    const std::span<Lease> leases(leases_.data(), keys_.size());
    RETURN_IF_ERROR(spec_.source.fetch(keys_, leases));
    hint_after(rows.layer, expert);
    fill(bank, leases);
    if (!mutated(Mutation::kBankFullNotAwaited)) stream.wait(*banks_[bank].full);
    enqueue_bank(stream, rows, bank);
    stream.record(*banks_[bank].free);
  }
  return {};
}

void StreamedDispatch::enqueue_bank(device::Stream& stream, const LayerRows& rows, size_t bank) const {
  const auto places = static_cast<size_t>(spec_.ring.bank_places);
  const device::ExpertSlots slots{
      memory_, device::view_of<int64_t>(*offsets_, 1, spec_.ring.bank_places, bank * places * sizeof(int64_t))};
  const int32_t n_experts = spec_.layout.layer(rows.layer).n_experts;
  rows_.enqueue(stream, rows, slots, device::view_of<int32_t>(*tables_, 1, n_experts, table_offset(bank)));
}

void StreamedDispatch::gather(int32_t layer, int32_t& expert, std::vector<ExpertKey>& keys) const {
  const int32_t n_experts = spec_.layout.layer(layer).n_experts;
  keys.clear();
  for (; expert < n_experts && keys.size() < leases_.size(); expert++) {
    const ExpertKey key{layer, expert};
    if (spec_.cache == nullptr || spec_.cache->slot(key) < 0) keys.push_back(key);
  }
}

int32_t StreamedDispatch::last_layer() const {
  return std::min(spec_.last_layer, static_cast<int32_t>(spec_.layout.layers().size()));
}

void StreamedDispatch::hint_after(int32_t layer, int32_t expert) {
  gather(layer, expert, next_keys_);
  if (next_keys_.empty() && layer + 1 < last_layer()) {
    int32_t first = 0;
    gather(layer + 1, first, next_keys_);
  }
  if (!next_keys_.empty()) spec_.source.hint(next_keys_, HintKind::kCertain);
}

void StreamedDispatch::fill(size_t bank, std::span<Lease> leases) {
  if (!mutated(Mutation::kBankFreeNotAwaited)) copies_->wait(*banks_[bank].free);
  for (size_t i = 0; i < leases.size(); i++) {
    copy_blob(leases[i], offset_ + spec_.ring.offset(static_cast<int64_t>(bank), static_cast<int64_t>(i)));
  }
  copy_way();
  for (Lease& lease : leases) {
    if (lies_pinned(lease)) lease.note_async_read(*copies_);
    lease.release();
  }
  copy_table(bank);
  copies_->record(*banks_[bank].full);
  const size_t blob_bytes = spec_.layout.layer(keys_[0].layer).blob_bytes();
  spec_.stats.add(Counter::kStreamedExperts, static_cast<int64_t>(keys_.size()));
  spec_.stats.add(Counter::kStreamedBytes, static_cast<int64_t>(keys_.size() * blob_bytes));
}

void StreamedDispatch::copy_blob(Lease& lease, size_t offset) {
  const LayerLayout& layer = spec_.layout.layer(lease.key().layer);
  if (lies_pinned(lease)) return copy_pinned(lease, layer, offset);
  const Status queued = uploader_->put(*memory_, offset, layer.blob_bytes(), [&](std::span<std::byte> to) -> Status {
    const LockGuard turn(spec_.compute.turn());
    pack_blob(layer, lease, to, spec_.compute.pool());
    return {};
  });
  ASSERT(queued.ok());
}

void StreamedDispatch::copy_pinned(const Lease& lease, const LayerLayout& layer, size_t offset) {
  for (int i = 0; i < static_cast<int>(layer.parts.size()); i++) {
    const Lease::HostPlace place = lease.host_place(i);
    add_way({place.buffer, place.offset, offset + layer.part_offset(i), layer.parts[static_cast<size_t>(i)].bytes});
  }
}

// Between parts that stand alike on both sides lies padding, at most as much as parts are aligned to.
void StreamedDispatch::add_way(const Way& way) {
  const size_t from_gap = way.from_offset - (way_.from_offset + way_.bytes);
  const size_t to_gap = way.to_offset - (way_.to_offset + way_.bytes);
  const bool joins = way_.from == way.from && from_gap == to_gap && from_gap < kPartAlignment;
  if (!joins) {
    copy_way();
    way_ = way;
    return;
  }
  way_.bytes += from_gap + way.bytes;
}

void StreamedDispatch::copy_way() {
  if (way_.from != nullptr) copies_->copy(*memory_, way_.to_offset, *way_.from, way_.from_offset, way_.bytes);
  way_ = {};
}

// The pinned table is written anew once its last copy is done: it was queued a whole round of the ring ago.
void StreamedDispatch::copy_table(size_t bank) {
  {
    const Activity activity("waits for a copy to the device");
    banks_[bank].full->synchronize();
  }
  const auto n = static_cast<size_t>(spec_.limits.n_experts);
  {
    const auto table = staged_tables_->write<int32_t>(table_offset(bank), n);
    std::fill_n(table.span().data(), n, -1);
    for (size_t i = 0; i < keys_.size(); i++) table[static_cast<size_t>(keys_[i].expert)] = static_cast<int32_t>(i);
  }
  copies_->copy(*tables_, table_offset(bank), *staged_tables_, table_offset(bank), n * sizeof(int32_t));
}

Status StreamedDispatch::end_step() {
  if (!std::exchange(started_, false)) return {};
  failed_ = false;
  Status status = copies_->synchronize();
  if (!status.ok()) {
    copies_->reset();
    memory_ = nullptr;  // the places of the ring may not have come
  }
  return status;
}

}  // namespace strata::experts
