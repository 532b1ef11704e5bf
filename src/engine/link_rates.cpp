#include "engine/link_rates.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "base/bytes.h"
#include "experts/prediction.h"

namespace strata::engine {
namespace {

using experts::Lease;

constexpr uint64_t kCopiedBytes = 96 * kMiB;  // enough that starting and waiting don't count
constexpr uint64_t kReadBytes = 512 * kMiB;   // more than caches hold
constexpr size_t kCopiesMax = 256;             // of small experts
constexpr int kRounds = 6;  // the best counts: memory is slower in some milliseconds than in others
// Measured on an H200: 32 us for the kernels that compute what has come, and 10 us of head start of the CPU, which has
// read a guess.
constexpr double kLinkedS = 42e-6;

struct Piece {
  Lease::HostPlace place;
  size_t bytes;
  const std::byte* address() const { return place.buffer->address() + place.offset; }
};

// Page-locked experts, as many as have so many bytes.
std::vector<Piece> pinned_pieces(const LinkProbe& probe, uint64_t bytes) {
  std::vector<Piece> pieces;
  uint64_t found = 0;
  for (int32_t l = 0; l < static_cast<int32_t>(probe.layout.layers().size()); l++) {
    for (int32_t e = 0; e < probe.layout.layer(l).n_experts; e++) {
      const Lease::HostPlace place = probe.source.pinned_place({l, e});
      if (place.buffer == nullptr) continue;
      pieces.push_back({place, probe.layout.layer(l).blob_bytes()});
      found += pieces.back().bytes;
      if (found >= bytes) return pieces;
    }
  }
  return pieces;
}

double rate_of(uint64_t bytes, int64_t ns) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<int64_t>(ns, 1));
}

// Neighbours in memory as one piece: long copies show what a link can do.
std::vector<Piece> joined(std::span<const Piece> pieces) {
  constexpr size_t kLongest = 32 * kMiB;
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    const bool joins = !out.empty() && out.back().place.buffer == piece.place.buffer &&
                       out.back().place.offset + out.back().bytes == piece.place.offset &&
                       out.back().bytes + piece.bytes <= kLongest;
    if (joins) {
      out.back().bytes += piece.bytes;
    } else {
      out.push_back(piece);
    }
  }
  return out;
}

// Copies `pieces` over and over into one place.
Result<double> copy_rate(device::Device& device, Clock& clock, std::span<const Piece> pieces) {
  size_t largest = 0;
  for (const Piece& piece : pieces) largest = std::max(largest, piece.bytes);
  const auto to = device.allocate(largest, "a test of the link");
  if (!to.ok()) return 0.0;
  const auto stream = device.make_stream("test of the link");
  double best = 0;
  for (int round = 0; round < kRounds; round++) {
    uint64_t bytes = 0;
    const int64_t begin_ns = clock.now_ns();
    for (size_t i = 0; bytes < kCopiedBytes && i < kCopiesMax; i++) {
      const Piece& piece = pieces[i % pieces.size()];
      stream->copy(**to, 0, *piece.place.buffer, piece.place.offset, piece.bytes);
      bytes += piece.bytes;
    }
    RETURN_IF_ERROR(stream->synchronize());
    best = std::max(best, rate_of(bytes, clock.now_ns() - begin_ns));
  }
  return best;
}

// The sum makes the compiler read every byte. In four streams, as products read: that gets more out of memory than one.
uint64_t sum_of(const std::byte* from, size_t bytes) {
  constexpr size_t kStreams = 4, kLineWords = 8;
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  const size_t length = bytes / (sizeof(uint64_t) * kStreams * kLineWords) * kLineWords;
  uint64_t sums[kLineWords] = {};
  for (size_t i = 0; i < length; i += kLineWords) {
    for (size_t stream = 0; stream < kStreams; stream++) {
      for (size_t j = 0; j < kLineWords; j++) sums[j] += words[stream * length + i + j];
    }
  }
  return std::accumulate(sums, sums + kLineWords, uint64_t{0});
}

double read_rate(const LinkProbe& probe, std::span<const Piece> pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  std::atomic<uint64_t> sum{0};
  double best = 0;
  for (int round = 0; round < kRounds; round++) {
    const int64_t begin_ns = probe.clock.now_ns();
    probe.threads.for_each(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) {
        const Piece& piece = pieces[static_cast<size_t>(i)];
        sum.fetch_add(sum_of(piece.address(), piece.bytes), std::memory_order_relaxed);
      }
    });
    best = std::max(best, rate_of(bytes, probe.clock.now_ns() - begin_ns));
  }
  return best;
}

}  // namespace

Result<double> measure_copies(device::Device& device, Clock& clock) {
  constexpr size_t kBytes = 32 * kMiB;
  const auto from = device.allocate_host(kBytes, device::MemoryKind::kPinned, "a test of the link");
  if (!from.ok()) return 0.0;
  const Piece piece{{from->get(), 0}, kBytes};
  return copy_rate(device, clock, {&piece, 1});
}

Result<experts::LinkRates> measure_link(const LinkProbe& probe) {
  const std::vector<Piece> pieces = pinned_pieces(probe, kReadBytes);
  if (pieces.empty()) {
    ASSIGN_OR_RETURN(const double alone, measure_copies(probe.device, probe.clock));
    return experts::LinkRates{.copies = alone};
  }
  ASSIGN_OR_RETURN(const double copies, copy_rate(probe.device, probe.clock, joined(pieces)));
  return experts::LinkRates{.link = copies * kInPlaceShare,
                            .cpu = read_rate(probe, pieces) * experts::kProductShare,
                            .copies = copies,
                            .link_s = kLinkedS};
}

}  // namespace strata::engine
