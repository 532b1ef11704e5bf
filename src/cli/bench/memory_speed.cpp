#include "cli/bench/memory_speed.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/assert.h"
#include "cli/bench/pages.h"
#include "cli/bench/spread.h"
#include "cli/bench/stream_loops.h"
#include "cli/bench/team.h"

namespace strata::cli {
namespace {

// The best of them is told: what disturbs a pass only makes it slower.
constexpr int kPasses = 7;
constexpr uint64_t kLeastPieceBytes = 64 << 10;

// A buffer shared out over the threads of a pool.
class Probe {
 public:
  static Result<std::unique_ptr<Probe>> create(const ThreadPoolOptions& threads, uint64_t buffer_bytes) {
    const uint64_t least = static_cast<uint64_t>(threads.n_threads) * kLeastPieceBytes;
    ASSIGN_OR_RETURN(const BufferSize size, buffer_size(std::max(buffer_bytes, least)));
    ASSIGN_OR_RETURN(std::unique_ptr<Pages> pages, Pages::allocate(size.bytes));
    std::unique_ptr<Probe> probe(new Probe(threads, std::move(pages), size.reduced));
    // Every page is of the core that will read it.
    run_together(probe->pool_, [&](int worker) { write_stream(probe->piece(worker), probe->piece_bytes(), kValue); });
    return probe;
  }

  ReadSpeed read() {
    std::atomic<uint64_t> sum{0};
    const double best = best_of([&](int worker) { sum += read_stream(piece(worker), piece_bytes()); });
    ASSERT(sum == expected_sum());
    return {.threads = pool_.n_threads(),
            .bytes_per_second = best,
            .buffer_bytes = used_bytes(),
            .reduced = reduced_,
            .huge_bytes = pages_->huge_bytes()};
  }
  double write() {
    return best_of([&](int worker) { write_stream(piece(worker), piece_bytes(), kValue); });
  }
  double copy() {
    const size_t half = piece_bytes() / 2;
    return best_of([&](int worker) { copy_stream(piece(worker) + half, piece(worker), half); });
  }

 private:
  static constexpr uint64_t kValue = 1;

  Probe(const ThreadPoolOptions& threads, std::unique_ptr<Pages> pages, bool reduced)
      : pool_(threads), pages_(std::move(pages)), reduced_(reduced) {}

  size_t piece_bytes() const {
    constexpr size_t kTwoHalves = 2 * kLoopBytes;
    return pages_->bytes().size() / static_cast<size_t>(pool_.n_threads()) / kTwoHalves * kTwoHalves;
  }
  size_t used_bytes() const { return piece_bytes() * static_cast<size_t>(pool_.n_threads()); }
  std::byte* piece(int worker) const {
    return pages_->bytes().data() + piece_bytes() * static_cast<size_t>(worker);
  }
  uint64_t expected_sum() const { return kPasses * (used_bytes() / sizeof(uint64_t)) * kValue; }

  template <class Body>
  double best_of(const Body& body) {
    double best = 0;
    for (int pass = 0; pass < kPasses; pass++) {
      const int64_t duration_ns = run_together(pool_, body);
      best = std::max(best, per_second(static_cast<double>(used_bytes()), duration_ns));
    }
    return best;
  }

  ThreadPool pool_;
  std::unique_ptr<Pages> pages_;
  bool reduced_;
};

}  // namespace

Result<ReadSpeed> measure_read(const ThreadPoolOptions& threads, uint64_t buffer_bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Probe> probe, Probe::create(threads, buffer_bytes));
  return probe->read();
}

Result<MemorySpeed> measure_memory(const ThreadPoolOptions& threads, uint64_t buffer_bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Probe> probe, Probe::create(threads, buffer_bytes));
  MemorySpeed speed{.read = probe->read()};
  speed.write_bytes_per_second = probe->write();
  speed.copy_bytes_per_second = probe->copy();
  return speed;
}

}  // namespace strata::cli
