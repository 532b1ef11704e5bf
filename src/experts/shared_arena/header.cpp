#include "experts/shared_arena/header.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/xxhash64.h"

namespace strata::experts::shared_arena {
namespace {

constexpr char kMagic[] = {'S', 'T', 'R', 'A', 'T', 'A', 'X', 'A'};

constexpr size_t kFormatAt = 8, kPageAt = 12, kFileBytesAt = 16, kPayloadBytesAt = 24, kGeometryAt = 32,
                 kFingerprintAt = 40, kChecksumAt = 48, kModifiedAt = 56, kPidAt = 64, kProgressAt = 72,
                 kPublishedAt = 128;
constexpr size_t kSealed = kPidAt;  // bytes that `published` is the hash of
static_assert(kPublishedAt + sizeof(uint64_t) <= kHeaderRead);

bool is_zero(HeaderBytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// 0 says "not published", so that it is no seal.
uint64_t seal_of(HeaderBytes header) { return std::max<uint64_t>(xxhash64(header.first(kSealed)), 1); }

uint64_t field(HeaderBytes header, size_t offset) { return load_le<uint64_t>(header.data() + offset); }

// Of a header of our format: whose it is.
Kind owner_of(HeaderBytes header, const Identity& wanted) {
  if (load_le<uint32_t>(header.data() + kPageAt) != kHeaderBytes) return Kind::kDamaged;
  if (field(header, kFileBytesAt) != wanted.file_bytes || field(header, kPayloadBytesAt) != wanted.payload_bytes) {
    return Kind::kOtherSize;
  }
  if (field(header, kGeometryAt) != wanted.geometry || field(header, kFingerprintAt) != wanted.fingerprint) {
    return Kind::kOtherPack;
  }
  return Kind::kPublished;
}

}  // namespace

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::kPublished:
      return "holds this model's experts";
    case Kind::kUnfinished:
      return "was not loaded to its end";
    case Kind::kNoArena:
      return "is no arena of experts";
    case Kind::kOtherFormat:
      return "is an arena of another format, made by another version of this program";
    case Kind::kOtherSize:
      return "holds another model's experts, of another size";
    case Kind::kOtherPack:
      return "holds another model's experts";
    case Kind::kDamaged:
      return "is an arena that another program has changed";
  }
  return "";
}

Kind kind_of(HeaderBytes header, SharedFile::Size size, const Identity& wanted) {
  // A loader makes the header's page before it writes there, and may end in between. A file that only begins with zeros
  // is somebody else's.
  if (is_zero(header)) {
    const bool whole_page = size.bytes == kHeaderBytes && header.size() == kHeaderBytes;
    return size.bytes == 0 || whole_page ? Kind::kUnfinished : Kind::kNoArena;
  }
  if (header.size() < sizeof kMagic || std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) return Kind::kNoArena;
  if (header.size() < kHeaderRead) return Kind::kDamaged;
  if (load_le<uint32_t>(header.data() + kFormatAt) != kFormat) return Kind::kOtherFormat;
  const uint64_t published = field(header, kPublishedAt);
  if (published != 0 && published != seal_of(header)) return Kind::kDamaged;
  const Kind owner = owner_of(header, wanted);
  if (owner != Kind::kPublished) return owner;
  if (published == 0) return size.bytes <= wanted.file_bytes ? Kind::kUnfinished : Kind::kDamaged;
  const SharedFile::Size complete{.bytes = wanted.file_bytes,
                                  .allocated = wanted.file_bytes,
                                  .modified_ns = static_cast<int64_t>(field(header, kModifiedAt))};
  return is_unchanged(size, complete) ? Kind::kPublished : Kind::kDamaged;
}

bool is_unchanged(SharedFile::Size now, SharedFile::Size then) {
  return now.bytes == then.bytes && now.allocated >= then.allocated && now.modified_ns == then.modified_ns;
}

uint64_t checksum_of(HeaderBytes header) { return field(header, kChecksumAt); }

LoaderState loader_of(HeaderBytes header) {
  if (header.size() < kHeaderRead) return {};
  return {.published = field(header, kPublishedAt) != 0,
          .pid = load_le<uint32_t>(header.data() + kPidAt),
          .progress = field(header, kProgressAt)};
}

HeaderWriter::HeaderWriter(std::span<std::byte> page, const Identity& identity, uint32_t pid) : page_(page.data()) {
  ASSERT(page.size() == kHeaderBytes);
  ASSERT(reinterpret_cast<uintptr_t>(page_) % sizeof(uint64_t) == 0);
  // First of all it is published no more, whatever stood there.
  store(kPublishedAt, 0);
  std::memcpy(page_, kMagic, sizeof kMagic);
  store_le(page_ + kFormatAt, kFormat);
  store_le(page_ + kPageAt, static_cast<uint32_t>(kHeaderBytes));
  store_le(page_ + kFileBytesAt, identity.file_bytes);
  store_le(page_ + kPayloadBytesAt, identity.payload_bytes);
  store_le(page_ + kGeometryAt, identity.geometry);
  store_le(page_ + kFingerprintAt, identity.fingerprint);
  store_le(page_ + kChecksumAt, uint64_t{0});
  store_le(page_ + kModifiedAt, uint64_t{0});
  store_le(page_ + kPidAt, pid);
  store(kProgressAt, 0);
}

// Of fields that others read while it is written.
void HeaderWriter::store(size_t offset, uint64_t value) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(page_ + offset), value, __ATOMIC_RELEASE);
}

void HeaderWriter::add_progress(uint64_t bytes) {
  __atomic_fetch_add(reinterpret_cast<uint64_t*>(page_ + kProgressAt), bytes, __ATOMIC_RELAXED);
}

void HeaderWriter::publish(uint64_t checksum, int64_t modified_ns) {
  store_le(page_ + kChecksumAt, checksum);
  store_le(page_ + kModifiedAt, modified_ns);
  store(kPublishedAt, seal_of({page_, kHeaderRead}));
}

}  // namespace strata::experts::shared_arena
