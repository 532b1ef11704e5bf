#include "experts/sources/resident.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "experts/bulk_load.h"

namespace strata::experts {

using device::MemoryKind;

namespace {

// Experts that are asked of the fallback at once: their keys lie on the stack.
constexpr size_t kBatch = 256;

}  // namespace

ResidentSource::ResidentSource(const ResidentSpec& spec, std::unique_ptr<ExpertSource> fallback)
    : layout_(spec.layout), stats_(spec.stats), fallback_(std::move(fallback)), places_(layout_.n_experts()) {}

Result<std::unique_ptr<ResidentSource>> ResidentSource::create(const ResidentSpec& spec, const ResidentPlan& plan,
                                                               std::unique_ptr<ExpertSource> fallback) {
  ASSERT(!plan.blobs().empty());
  std::unique_ptr<ResidentSource> source(new ResidentSource(spec, std::move(fallback)));
  RETURN_IF_ERROR(source->load(spec, plan.blobs()));
  return source;
}

// In steps, each a buffer of its own, that end where an expert ends.
Status ResidentSource::load(const ResidentSpec& spec, std::span<const ResidentBlob> blobs) {
  while (!blobs.empty()) {
    size_t n = 1;
    while (n < blobs.size() && blobs[n].end() - blobs[0].offset <= spec.step_bytes) n++;
    RETURN_IF_ERROR(load_step(spec, blobs.first(n)));
    blobs = blobs.subspan(n);
  }
  return {};
}

Status ResidentSource::load_step(const ResidentSpec& spec, std::span<const ResidentBlob> step) {
  const uint64_t begin = step.front().offset;
  RETURN_IF_ERROR(allocate(spec, step.back().end() - begin));
  device::HostBuffer& buffer = *buffers_.back();
  const auto bytes = buffer.write<std::byte>(0, buffer.bytes());
  std::vector<BlobTarget> targets;
  for (const ResidentBlob& blob : step) {
    const size_t offset = blob.offset - begin;
    targets.push_back({blob.key, bytes.span().data() + offset});
    places_[index(blob.key)] = {&buffer, offset};
  }
  return load_blobs(spec.model, layout_, targets, spec.threads, stats_);
}

Status ResidentSource::allocate(const ResidentSpec& spec, size_t bytes) {
  constexpr const char* kName = "the resident copy of experts";
  pinning_ = pinning_ && bytes <= spec.pin_bytes_max - pinned_bytes();
  if (pinning_) {
    auto pinned = spec.device.allocate_host(bytes, MemoryKind::kPinned, kName);
    if (pinned.ok()) {
      buffers_.push_back(std::move(pinned).value());
      return {};
    }
    log_info("{}: {}; what is left of the copy stays pageable", kName, pinned.error().message);
    pinning_ = false;
  }
  ASSIGN_OR_RETURN(auto pageable, spec.device.allocate_host(bytes, MemoryKind::kPageable, kName));
  buffers_.push_back(std::move(pageable));
  return {};
}

std::optional<Lease> ResidentSource::try_lease(ExpertKey key) {
  if (holds(key)) return lease(key, place(key));
  std::optional<Lease> from_fallback = fallback_->try_lease(key);
  if (from_fallback) stats_.add(Counter::kResidentFileReads);
  return from_fallback;
}

Status ResidentSource::fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) {
  ASSERT(keys.size() == leases.size());
  for (size_t first = 0; first < keys.size(); first += kBatch) {
    const size_t n = std::min(kBatch, keys.size() - first);
    Status status = fetch_batch(keys.subspan(first, n), leases.subspan(first, n));
    if (status.ok()) continue;
    for (Lease& held : leases) held.release();
    return status;
  }
  return {};
}

Status ResidentSource::fetch_batch(std::span<const ExpertKey> keys, std::span<Lease> leases) {
  std::array<ExpertKey, kBatch> missing;
  std::array<size_t, kBatch> where;
  size_t n = 0;
  for (size_t i = 0; i < keys.size(); i++) {
    if (holds(keys[i])) continue;
    where[n] = i;
    missing[n++] = keys[i];
  }
  if (n > 0) {
    RETURN_IF_ERROR(fallback_->fetch({missing.data(), n}, leases.first(n)));
    stats_.add(Counter::kResidentFileReads, static_cast<int64_t>(n));
    // From the front, where the fallback put them, to their own places: none lies before where it is.
    for (size_t i = n; i-- > 0;) leases[where[i]] = std::move(leases[i]);
  }
  for (size_t i = 0; i < keys.size(); i++) {
    if (holds(keys[i])) leases[i] = lease(keys[i], place(keys[i]));
  }
  return {};
}

size_t ResidentSource::hint(std::span<const ExpertKey> keys, HintKind kind) {
  std::array<ExpertKey, kBatch> missing;
  size_t n = 0, n_read = 0;
  for (const ExpertKey key : keys) {
    if (holds(key)) continue;
    missing[n++] = key;
    if (n == kBatch) n_read += fallback_->hint({missing.data(), std::exchange(n, 0)}, kind);
  }
  if (n > 0) n_read += fallback_->hint({missing.data(), n}, kind);
  return n_read;
}

// A table of places is all there is: leases follow it from the next one on.
void ResidentSource::begin_exchange(ExpertKey out, ExpertKey in, const device::HostBuffer& bytes, size_t offset) {
  ASSERT(holds(in));
  ASSERT(!holds(out));
  exchanges_.push_back({out, in});
  places_[index(out)] = {&bytes, offset};
}

void ResidentSource::cancel_exchange(ExpertKey out) {
  end_exchange(out);
  places_[index(out)] = {};
}

void ResidentSource::commit_exchange(ExpertKey out) {
  const ExpertKey in = end_exchange(out);
  const Place from = place(out), to = place(in);
  const size_t n = layout_.layer(out.layer).blob_bytes();
  std::memcpy(own_buffer(to).write<std::byte>(to.offset, n).span().data(),
              from.buffer->read<std::byte>(from.offset, n).span().data(), n);
  places_[index(out)] = to;
  places_[index(in)] = {};
}

Status ResidentSource::replace(std::span<const Move> moves) {
  const auto most = static_cast<size_t>(std::clamp<int64_t>(fallback_->lease_limit() / 2, 1, kBatch));
  while (!moves.empty()) {
    const std::span<const Move> some = moves.first(std::min(most, moves.size()));
    RETURN_IF_ERROR(replace_some(some));
    moves = moves.subspan(some.size());
  }
  return {};
}

Status ResidentSource::replace_some(std::span<const Move> moves) {
  std::array<ExpertKey, kBatch> keys;
  std::array<Lease, kBatch> leases;
  for (size_t i = 0; i < moves.size(); i++) {
    ASSERT(moves[i].in.layer == moves[i].out.layer);
    ASSERT(holds(moves[i].out));
    ASSERT(!holds(moves[i].in));
    keys[i] = moves[i].in;
  }
  RETURN_IF_ERROR(fallback_->fetch({keys.data(), moves.size()}, {leases.data(), moves.size()}));
  for (size_t i = 0; i < moves.size(); i++) {
    replace_one(leases[i], moves[i].out);
    const Place place = std::exchange(places_[index(moves[i].out)], {});
    RETURN_IF_ERROR(fallback_->health());
    places_[index(moves[i].in)] = place;
    stats_.add(Counter::kResidentReplaced);
  }
  return {};
}

void ResidentSource::replace_one(const Lease& from, ExpertKey out) {
  const Place to = place(out);
  const LayerLayout& layer = layout_.layer(out.layer);
  const auto bytes = own_buffer(to).write<std::byte>(to.offset, layer.blob_bytes());
  for (size_t i = 0; i < layer.parts.size(); i++) {
    const int part = static_cast<int>(i);
    std::memcpy(bytes.span().data() + layer.part_offset(part), from.part(part), layer.parts[i].bytes);
  }
}

device::HostBuffer& ResidentSource::own_buffer(const Place& place) const {
  const auto own =
      std::find_if(buffers_.begin(), buffers_.end(), [&](const auto& b) { return b.get() == place.buffer; });
  ASSERT(own != buffers_.end());
  return **own;
}

ExpertKey ResidentSource::end_exchange(ExpertKey out) {
  const auto at = std::find_if(exchanges_.begin(), exchanges_.end(), [&](const Exchange& e) { return e.out == out; });
  ASSERT(at != exchanges_.end());
  const ExpertKey in = at->in;
  exchanges_.erase(at);
  return in;
}

Lease ResidentSource::lease(ExpertKey key, const Place& place) {
  const LayerLayout& layer = layout_.layer(key.layer);
  const std::byte* parts[kMaxParts];
  for (size_t i = 0; i < layer.parts.size(); i++) {
    parts[i] = place.buffer->address() + place.offset + layer.part_offset(static_cast<int>(i));
  }
  stats_.add(Counter::kResidentLeases);
  return make_lease(key, 0, {parts, layer.parts.size()}, place.buffer);
}

bool ResidentSource::pinned(ExpertKey key) const {
  const device::HostBuffer* buffer = place(key).buffer;
  return buffer != nullptr && buffer->kind() == MemoryKind::kPinned;
}

int64_t ResidentSource::n_pinned() const {
  return std::count_if(places_.begin(), places_.end(), [](const Place& place) {
    return place.buffer != nullptr && place.buffer->kind() == MemoryKind::kPinned;
  });
}

uint64_t ResidentSource::bytes() const {
  uint64_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += buffer->bytes();
  return bytes;
}

uint64_t ResidentSource::pinned_bytes() const {
  uint64_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += buffer->kind() == MemoryKind::kPinned ? buffer->bytes() : 0;
  return bytes;
}

}  // namespace strata::experts
