// How the reads of one batch are put together: in the order of the drive, in whole blocks, neighbours as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "base/bytes.h"

namespace strata {

// Bytes of a file that are wanted in memory. They arrive in whole blocks, so those around them arrive too.
struct BlockRead {
  uint64_t tag = 0;  // the job that it is part of
  int32_t file = 0;
  uint64_t offset = 0;
  size_t bytes = 0;             // > 0
  std::byte* blocks = nullptr;  // where the block that holds `offset` begins; room for block_span(offset, bytes)
};

// Memory for all blocks that a range touches.
constexpr size_t block_span(uint64_t offset, size_t bytes, size_t block) {
  return static_cast<size_t>(align_up(offset + bytes, block) - offset / block * block);
}

// One read of the system, for one or several of the batch, or a part of one that is long.
struct PlannedRead {
  int32_t file = 0;
  uint64_t offset = 0;  // of a block
  size_t bytes = 0;     // whole blocks, the last of which may lie behind the end of the file
  uint64_t needed_end = 0;  // the file's bytes up to here are wanted
  std::vector<iovec> into = {};
  // Bytes that several want: read once, to be copied when the read is done.
  struct Share {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
  };
  std::vector<Share> shares = {};
  std::vector<BlockRead> wanted = {};  // what it is for
};

// Reads of at most max_bytes (a multiple of `block`, a power of two), ordered by file and offset, those that touch or
// share blocks put into one. Where a piece would make one too long, a block may be read twice.
std::vector<PlannedRead> plan_reads(std::span<const BlockRead> batch, size_t block, size_t max_bytes);

}  // namespace strata
