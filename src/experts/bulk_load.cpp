#include "experts/bulk_load.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "base/mutex.h"

namespace strata::experts {
namespace {

// Bytes that lie together in a file and in memory.
struct Piece {
  int32_t shard;
  uint64_t offset;
  size_t bytes;
  std::byte* to;

  bool touches(const Piece& next) const { return shard == next.shard && offset + bytes == next.offset; }
};

std::vector<Piece> pieces_of(const ExpertLayout& layout, std::span<const BlobTarget> targets) {
  std::vector<Piece> pieces;
  for (const BlobTarget& target : targets) {
    const LayerLayout& layer = layout.layer(target.key.layer);
    for (size_t i = 0; i < layer.parts.size(); i++) {
      const BlobPart::Place& place = layer.parts[i].places[static_cast<size_t>(target.key.expert)];
      pieces.push_back({place.shard, place.offset, layer.parts[i].bytes,
                        target.to + layer.part_offset(static_cast<int>(i))});
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.shard, a.offset) < std::tie(b.shard, b.offset);
  });
  return pieces;
}

// Joins neighbours whose bytes also go to the same place one behind the other.
void join(std::vector<Piece>& pieces) {
  size_t n = 0;
  for (const Piece& piece : pieces) {
    if (n > 0 && pieces[n - 1].touches(piece) && pieces[n - 1].to + pieces[n - 1].bytes == piece.to) {
      pieces[n - 1].bytes += piece.bytes;
    } else {
      pieces[n++] = piece;
    }
  }
  pieces.resize(n);
}

// Runs of neighbours, each to be one read.
std::vector<std::span<const Piece>> reads_of(std::span<const Piece> pieces) {
  std::vector<std::span<const Piece>> reads;
  size_t bytes = 0;  // of the last run
  for (size_t i = 0; i < pieces.size(); i++) {
    const bool joins = i > 0 && pieces[i - 1].touches(pieces[i]) && bytes + pieces[i].bytes <= kLoadBufferBytes;
    if (joins) {
      reads.back() = {reads.back().data(), reads.back().size() + 1};
      bytes += pieces[i].bytes;
    } else {
      reads.push_back(pieces.subspan(i, 1));
      bytes = pieces[i].bytes;
    }
  }
  return reads;
}

// A thread's buffer for reads whose bytes go to several places.
using LoadBuffer = std::unique_ptr<std::byte[]>;

Status read_run(const gguf::Model& model, std::span<const Piece> run, LoadBuffer& buffer, Stats& stats) {
  const Piece& first = run.front();
  const size_t bytes = static_cast<size_t>(run.back().offset - first.offset) + run.back().bytes;
  const bool direct = run.size() == 1;
  if (!direct && !buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(kLoadBufferBytes);
  std::byte* to = direct ? first.to : buffer.get();
  RETURN_IF_ERROR(model.shards()[static_cast<size_t>(first.shard)].file->read_exact(first.offset, {to, bytes}));
  stats.add(Counter::kFileReads);
  stats.add(Counter::kFileReadBytes, static_cast<int64_t>(bytes));
  if (direct) return {};
  for (const Piece& piece : run) std::memcpy(piece.to, to + (piece.offset - first.offset), piece.bytes);
  return {};
}

}  // namespace

Status load_blobs(const gguf::Model& model, const ExpertLayout& layout, std::span<const BlobTarget> targets,
                  ThreadPool& pool, Stats& stats) {
  std::vector<Piece> pieces = pieces_of(layout, targets);
  join(pieces);
  const std::vector<std::span<const Piece>> reads = reads_of(pieces);
  std::vector<LoadBuffer> buffers(static_cast<size_t>(pool.n_threads()));
  std::atomic<bool> failed{false};
  Mutex mutex;
  Status first_error;
  pool.for_each(static_cast<int64_t>(reads.size()), 1, [&](int64_t i, int64_t, int worker) {
    if (failed.load(std::memory_order_relaxed)) return;
    Status status = read_run(model, reads[static_cast<size_t>(i)], buffers[static_cast<size_t>(worker)], stats);
    if (status.ok()) return;
    const LockGuard lock(mutex);
    if (!failed.exchange(true)) first_error = std::move(status);
  });
  return first_error;
}

}  // namespace strata::experts
