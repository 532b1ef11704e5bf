#include "experts/shared_arena/loader.h"

#include <unistd.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "experts/bulk_load.h"
#include "experts/checksum.h"

namespace strata::experts::shared_arena {
namespace {

// Memory is taken in pieces, so that whoever waits sees progress.
constexpr uint64_t kAllocateBytes = kGiB;
constexpr uint64_t kPopulateBytes = 64 * kMiB;
// Writes of the header; the second finds its page mapped.
constexpr int kPublishMax = 10;

Error no_room(const SharedFile& file, uint64_t needed, uint64_t available) {
  return {ErrorCode::kNoMemory,
          format("shared arena {}: {} ({} bytes) are needed, and its file system has {} ({} bytes) left; make it "
                 "larger (mount -o remount,size=...), free some of it, or name a file elsewhere",
                 printable(file.path()), format_bytes(needed), needed, format_bytes(available), available)};
}

Error changed(const SharedFile& file) {
  return {ErrorCode::kIo, format("shared arena {}: another program has changed the file while it was loaded; start "
                                 "again",
                                 printable(file.path()))};
}

}  // namespace

Status Loader::load() {
  RETURN_IF_ERROR(check_room());
  RETURN_IF_ERROR(open_header());
  RETURN_IF_ERROR(allocate());
  ASSIGN_OR_RETURN(payload_,
                   spec_.file.map_writable(kHeaderBytes, spec_.identity.file_bytes - kHeaderBytes));
  populate();
  blob_checksums_.resize(spec_.layout.n_experts());
  for (int32_t l = 0; l < static_cast<int32_t>(spec_.layout.layers().size()); l++) RETURN_IF_ERROR(load_layer(l));
  checksum_ = combined_checksum(blob_checksums_);
  RETURN_IF_ERROR(payload_->make_read_only());
  ASSIGN_OR_RETURN(const bool whole, is_whole());
  // Zeros may have taken the place of pages, and what was written to them is nowhere.
  if (whole && !payload_->failed() && !page_->failed()) return {};
  return changed(spec_.file);
}

// The first write to a page through a mapping counts as a modification, and the header's page may have to be mapped
// again, so the time that was written is looked at once more. Nobody reads the header meanwhile: that takes FILL.
Status Loader::publish() {
  for (int i = 0; i < kPublishMax; i++) {
    ASSIGN_OR_RETURN(published_, spec_.file.size());
    header_->publish(checksum_, published_.modified_ns);
    ASSIGN_OR_RETURN(const SharedFile::Size after, spec_.file.size());
    if (is_unchanged(after, published_)) return {};
  }
  return changed(spec_.file);
}

Result<bool> Loader::is_whole() const {
  ASSIGN_OR_RETURN(const SharedFile::Size size, spec_.file.size());
  return size.bytes == spec_.identity.file_bytes && size.allocated >= spec_.identity.file_bytes;
}

Status Loader::check_room() const {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> room, spec_.file.room());
  ASSIGN_OR_RETURN(const SharedFile::Size size, spec_.file.size());
  const uint64_t needed = spec_.identity.file_bytes - std::min(size.allocated, spec_.identity.file_bytes);
  if (!room || needed <= *room) return {};
  return no_room(spec_.file, needed, *room);
}

// Where several programs take memory at once, one may be left without in spite of check_room().
Status Loader::allocate() {
  const uint64_t end = spec_.identity.file_bytes;
  for (uint64_t at = kHeaderBytes; at < end; at += kAllocateBytes) {
    const uint64_t bytes = std::min(kAllocateBytes, end - at);
    if (Status status = spec_.file.allocate(at, bytes); !status.ok()) {
      RETURN_IF_ERROR(check_room());
      return status;
    }
    header_->add_progress(bytes);
  }
  ASSIGN_OR_RETURN(const bool whole, is_whole());
  return whole ? Status() : Status(changed(spec_.file));
}

Status Loader::open_header() {
  RETURN_IF_ERROR(spec_.file.allocate(0, kHeaderBytes));
  ASSIGN_OR_RETURN(page_, spec_.file.map_writable(0, kHeaderBytes));
  header_.emplace(page_->writable_bytes(), spec_.identity, static_cast<uint32_t>(::getpid()));
  return {};
}

void Loader::populate() {
  const std::span<std::byte> all = payload_->writable_bytes();
  const auto n = static_cast<int64_t>((all.size() + kPopulateBytes - 1) / kPopulateBytes);
  spec_.threads.for_each(n, 1, [&](int64_t i, int64_t, int) {
    const size_t at = static_cast<size_t>(i) * kPopulateBytes;
    const std::span<std::byte> some = all.subspan(at, std::min(kPopulateBytes, all.size() - at));
    populate_for_writing(some);
    header_->add_progress(some.size());
  });
}

Status Loader::load_layer(int32_t l) {
  const LayerLayout& layer = spec_.layout.layer(l);
  std::vector<BlobTarget> targets;
  for (int32_t e = 0; e < layer.n_experts; e++) targets.push_back({{l, e}, blob({l, e})});
  RETURN_IF_ERROR(load_blobs(spec_.model, spec_.layout, targets, spec_.threads, spec_.stats));
  hash_layer(l);
  header_->add_progress(layer.blob_bytes() * static_cast<uint64_t>(layer.n_experts));
  return {};
}

void Loader::hash_layer(int32_t l) {
  const LayerLayout& layer = spec_.layout.layer(l);
  spec_.threads.for_each(layer.n_experts, 1, [&](int64_t e, int64_t, int) {
    const ExpertKey key{l, static_cast<int32_t>(e)};
    const std::byte* parts[kMaxParts];
    for (size_t i = 0; i < layer.parts.size(); i++) parts[i] = blob(key) + layer.part_offset(static_cast<int>(i));
    blob_checksums_[spec_.layout.index(key)] = blob_checksum(layer, {parts, layer.parts.size()});
  });
}

std::byte* Loader::blob(ExpertKey key) { return payload_->writable_bytes().data() + spec_.layout.packed_offset(key); }

}  // namespace strata::experts::shared_arena
