// The header of an arena file, format 2. Its page is the file's first 2 MiB, the payload follows. Little-endian:
//
// | offset | bytes | contents                                                                |
// | ---    | ---   | ---                                                                     |
// | 0      | 8     | "STRATAXA"                                                              |
// | 8      | 4     | format: 2                                                               |
// | 12     | 4     | bytes of the header's page                                              |
// | 16     | 8     | bytes of the file                                                       |
// | 24     | 8     | bytes of the payload: blobs, layer-major, each part 64-byte aligned     |
// | 32     | 8     | geometry: hash of how the payload is laid out                           |
// | 40     | 8     | fingerprint of the pack that the payload was read from                  |
// | 48     | 8     | checksum of the payload (experts/checksum.h); 0 until it is complete    |
// | 56     | 8     | time of the file's last modification when it was complete, in ns        |
// | 64     | 4     | process that loads or has loaded it                                     |
// | 72     | 8     | progress: bytes prepared and loaded so far, while it is being loaded    |
// | 128    | 8     | published: 0, or the hash of bytes 0 to 63                              |
//
// A reader believes nothing of it before it has all of it compared with what it expects. The time tells files that were
// cut and made longer again, whose lost pages read as zeros; hugetlbfs notes it for some ways of doing so only.
#pragma once

#include <cstdint>
#include <span>

#include "base/shared_file.h"

namespace strata::experts::shared_arena {

inline constexpr uint64_t kHeaderBytes = kSharedPage;
inline constexpr uint32_t kFormat = 2;
// Bytes of the file whose locks are FILL and USER.
inline constexpr uint64_t kFillByte = 0;
inline constexpr uint64_t kUserByte = 1;

// What a file has to be to be attached to.
struct Identity {
  uint64_t file_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t geometry = 0;
  uint64_t fingerprint = 0;
};

// What a file is to an engine that wants the arena of an identity.
enum class Kind {
  kPublished,
  kUnfinished,   // empty, or left by a loader of the same identity that did not end well
  kNoArena,      // nothing of ours
  kOtherFormat,
  kOtherSize,
  kOtherPack,
  kDamaged,      // its header does not hold together, or the file was cut or written to
};
// Of a file that was published or not, what it holds, as a clause about "it".
const char* kind_text(Kind kind);

// The part of a header that is of interest.
inline constexpr size_t kHeaderRead = 192;
using HeaderBytes = std::span<const std::byte>;  // kHeaderRead of them, or all that the file has

Kind kind_of(HeaderBytes header, SharedFile::Size size, const Identity& wanted);
uint64_t checksum_of(HeaderBytes header);  // of a kPublished one

// Whether a file that was `then` has kept its bytes, as far as the file system can tell.
bool is_unchanged(SharedFile::Size now, SharedFile::Size then);

// What a file says about who loads it.
struct LoaderState {
  bool published = false;  // nobody: it is complete, or claims to be
  uint32_t pid = 0;
  uint64_t progress = 0;

  bool operator==(const LoaderState&) const = default;
};
// Zeros where the file has no header yet.
LoaderState loader_of(HeaderBytes header);

// Writes a header in place, as its file's only writer. Others may read it meanwhile.
class HeaderWriter {
 public:
  // `page` stays mapped as long as this is used; its bytes come to say that `pid` loads the identity, and has not
  // published it.
  HeaderWriter(std::span<std::byte> page, const Identity& identity, uint32_t pid);
  void add_progress(uint64_t bytes);  // any thread
  // `modified_ns` is that of the file, now that all of its payload is there.
  void publish(uint64_t checksum, int64_t modified_ns);

 private:
  void store(size_t offset, uint64_t value);
  std::byte* page_;
};

}  // namespace strata::experts::shared_arena
