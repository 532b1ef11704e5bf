#include "base/read_plan.h"

#include <algorithm>
#include <tuple>

#include "base/assert.h"
#include "base/read_ring.h"

namespace strata {
namespace {

uint64_t first_block(const BlockRead& read, size_t block) { return read.offset / block * block; }
uint64_t end_block(const BlockRead& read, size_t block) { return align_up(read.offset + read.bytes, block); }

// Cuts a read at borders of blocks into pieces that take at most max_bytes each.
void cut(const BlockRead& read, size_t block, size_t max_bytes, std::vector<BlockRead>& pieces) {
  const uint64_t start = first_block(read, block), end = read.offset + read.bytes;
  for (uint64_t at = start; at < end; at += max_bytes) {
    const uint64_t from = std::max(at, read.offset), to = std::min(end, at + max_bytes);
    pieces.push_back({read.tag, read.file, from, static_cast<size_t>(to - from), read.blocks + (at - start)});
  }
}

// Copies what the read already brings of `piece`, up to file position `end`, from where that lands.
void share(PlannedRead& read, const BlockRead& piece, size_t block, uint64_t end) {
  uint64_t segment_start = read.offset;
  for (const iovec& segment : read.into) {
    const uint64_t segment_end = segment_start + segment.iov_len;
    const uint64_t from = std::max(piece.offset, segment_start), to = std::min(end, segment_end);
    if (from < to) {
      read.shares.push_back({static_cast<const std::byte*>(segment.iov_base) + (from - segment_start),
                             piece.blocks + (from - first_block(piece, block)), static_cast<size_t>(to - from)});
    }
    segment_start = segment_end;
  }
}

bool fits(const PlannedRead& read, const BlockRead& piece, size_t block, size_t max_bytes) {
  return read.file == piece.file && first_block(piece, block) <= read.offset + read.bytes &&
         end_block(piece, block) - read.offset <= max_bytes && read.into.size() < kRingSegmentsMax;
}

void add(PlannedRead& read, const BlockRead& piece, size_t block) {
  const uint64_t read_end = read.offset + read.bytes;
  const uint64_t piece_start = first_block(piece, block), piece_end = end_block(piece, block);
  share(read, piece, block, std::min(read_end, piece.offset + piece.bytes));
  if (piece_end > read_end) {
    std::byte* rest = piece.blocks + (read_end - piece_start);
    const auto bytes = static_cast<size_t>(piece_end - read_end);
    read.into.push_back({rest, bytes});
    read.bytes += bytes;
  }
  read.needed_end = std::max(read.needed_end, piece.offset + piece.bytes);
  read.wanted.push_back(piece);
}

}  // namespace

std::vector<PlannedRead> plan_reads(std::span<const BlockRead> batch, size_t block, size_t max_bytes) {
  ASSERT(max_bytes >= block);
  ASSERT(max_bytes % block == 0);
  std::vector<BlockRead> pieces;
  for (const BlockRead& read : batch) {
    ASSERT(read.bytes > 0);
    cut(read, block, max_bytes, pieces);
  }
  std::sort(pieces.begin(), pieces.end(), [](const BlockRead& a, const BlockRead& b) {
    return std::tie(a.file, a.offset, a.bytes) < std::tie(b.file, b.offset, b.bytes);
  });
  std::vector<PlannedRead> reads;
  for (const BlockRead& piece : pieces) {
    if (reads.empty() || !fits(reads.back(), piece, block, max_bytes)) {
      reads.push_back({.file = piece.file, .offset = first_block(piece, block)});
    }
    add(reads.back(), piece, block);
  }
  return reads;
}

}  // namespace strata
