// A thread gets the most out of memory when several streams are under way at once: the prefetchers of a core follow
// each of them, and none runs past the end of a page. They must not lie a power of two apart: their lines would meet in
// the same sets of the caches and the same banks of the memory, which on a Zen 4 left 10 of 31 GB/s.
#include "cli/bench/stream_loops.h"

#include <immintrin.h>

#include "kernels/kernels.h"

namespace strata::cli {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kStreams = 4;
// Bytes that a stream is ahead of its loads.
constexpr size_t kAhead = 2048;
// Bytes that each stream starts behind the beginning of its part, more than the one before: a page and some lines.
constexpr size_t kStagger = 4096 + 5 * kLine;

// Vector: one load. The compiler splits what the target of the caller does not have.
template <class Vector>
__attribute__((always_inline)) inline uint64_t read_loop(const std::byte* from, size_t bytes) {
  constexpr size_t kLoads = kLine / sizeof(Vector);
  Vector sums[kStreams * kLoads] = {};
  const size_t stream_bytes = bytes / kStreams;
  if (stream_bytes == 0) return 0;
  size_t place[kStreams];
  for (size_t s = 0; s < kStreams; s++) place[s] = s * kStagger % stream_bytes;
  for (size_t at = 0; at < stream_bytes; at += kLine) {
    for (size_t s = 0; s < kStreams; s++) {
      const std::byte* line = from + s * stream_bytes + place[s];
      place[s] += kLine;
      if (place[s] == stream_bytes) place[s] = 0;
      _mm_prefetch(reinterpret_cast<const char*>(line + kAhead), _MM_HINT_T0);  // harmless past the end
      const Vector* loads = reinterpret_cast<const Vector*>(line);
      for (size_t i = 0; i < kLoads; i++) sums[s * kLoads + i] += loads[i];
    }
  }
  uint64_t sum = 0;
  for (const Vector& lanes : sums) {
    for (size_t i = 0; i < sizeof(Vector) / sizeof(uint64_t); i++) sum += lanes[i];
  }
  return sum;
}

using Vector64 __attribute__((vector_size(64), may_alias)) = uint64_t;
using Vector32 __attribute__((vector_size(32), may_alias)) = uint64_t;
using Vector16 __attribute__((vector_size(16), may_alias)) = uint64_t;

__attribute__((target("avx512f"))) uint64_t read_avx512(const std::byte* from, size_t bytes) {
  return read_loop<Vector64>(from, bytes);
}
__attribute__((target("avx2"))) uint64_t read_avx2(const std::byte* from, size_t bytes) {
  return read_loop<Vector32>(from, bytes);
}
uint64_t read_baseline(const std::byte* from, size_t bytes) { return read_loop<Vector16>(from, bytes); }

}  // namespace

uint64_t read_stream(const std::byte* from, size_t bytes) {
  static const auto read = kernels::isa_available(kernels::Isa::kAvx512) ? read_avx512
                           : kernels::isa_available(kernels::Isa::kAvx2) ? read_avx2
                                                                         : read_baseline;
  return read(from, bytes);
}

void write_stream(std::byte* to, size_t bytes, uint64_t value) {
  const __m128i words = _mm_set1_epi64x(static_cast<long long>(value));
  for (size_t at = 0; at < bytes; at += sizeof words) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), words);
  _mm_sfence();
}

void copy_stream(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead), _MM_HINT_T0);
    for (size_t i = at; i < at + kLine; i += sizeof(__m128i)) {
      const __m128i words = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), words);
    }
  }
  _mm_sfence();
}

}  // namespace strata::cli
