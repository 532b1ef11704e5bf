// The claim word holds [phase: 32][pieces: 16][next piece: 16]. A thread claims a piece by a compare-and-swap from
// (phase, pieces, next) to (phase, pieces, next + 1), and reads the job's description only after it has succeeded: then
// the piece is unfinished, run() can't have returned, and the description stands still. A job with more pieces than 16
// bits count is published in rounds.
//
// Pieces come in levels, each of one size: a piece for each thread, in the last level all that are left. Pieces of one
// size are one level.
//
// A job of shares has a word for each thread, of which each thread claims from its own first: as long as all come, no
// two of them ask for the same one. What a thread has done it tells once, when it finds nothing more.
//
// Shares that are gone through twice have twice the pieces, and an odd phase. A thread claims pieces of the second half
// when no share has one of the first half left, so that whoever is waited for then has its piece already and runs:
// nobody waits for a thread that does not come. That all words are stored by then `stored_phase` tells. It holds on to
// the phase in which it has looked, since a job may have begun behind its back.
//
// Sleeping. A worker announces itself in `sleepers`, looks at the claim words once more, then waits for `signal` to
// change. run() stores a claim word, then looks at `sleepers`. Both sides use sequentially consistent operations, so
// one of them sees the other: either run() sees the sleeper and changes `signal`, or the worker sees the piece. (The
// words of shares are stored with less, all of them on their way at once; then run() looks by a read-modify-write of
// `sleepers`, which comes before the sleeper's own, that then brings it the words, or behind it.) The
// same pattern with `caller_sleeps` and `unfinished` lets run() sleep until the last piece is done.
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/activity.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/sync.h"

namespace strata {
namespace {

constexpr int kCountBits = 16;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr int64_t kPiecesMax = kCountMask;
constexpr int kLevelsMax = 5;

constexpr uint64_t claim_word(uint32_t phase, uint64_t pieces) {
  return (uint64_t{phase} << (2 * kCountBits)) | (pieces << kCountBits);
}
constexpr uint64_t next_piece(uint64_t word) { return word & kCountMask; }
constexpr uint64_t n_pieces(uint64_t word) { return (word >> kCountBits) & kCountMask; }
constexpr uint32_t phase_of(uint64_t word) { return static_cast<uint32_t>(word >> (2 * kCountBits)); }
constexpr bool goes_twice(uint32_t phase) { return phase % 2 == 1; }
constexpr bool has_open_piece(uint64_t word) { return next_piece(word) < n_pieces(word); }

// May return early: callers look at their condition again.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int n_threads) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, n_threads, nullptr, nullptr, 0);
}
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Spins until `condition` holds (true) or the time is over (false).
template <class Condition>
bool spin_until(std::chrono::microseconds limit, const Condition& condition) {
  using SteadyClock = std::chrono::steady_clock;
  constexpr int kLooksPerClockRead = 64;
  const auto end = SteadyClock::now() + limit;
  do {
    for (int i = 0; i < kLooksPerClockRead; ++i) {
      if (condition()) return true;
      __builtin_ia32_pause();
    }
  } while (SteadyClock::now() < end);
  return false;
}

std::string system_name(int worker) { return format("strata-{}", worker); }

void name_and_place_this_thread(int worker, std::string name, const std::vector<int>& cpus) {
  pthread_setname_np(pthread_self(), system_name(worker).c_str());
  name_this_thread(std::move(name));
  if (cpus.empty()) return;
  const size_t n_cpus = static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end())) + 1;
  cpu_set_t* set = CPU_ALLOC(n_cpus);
  if (set == nullptr) return;
  CPU_ZERO_S(CPU_ALLOC_SIZE(n_cpus), set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), CPU_ALLOC_SIZE(n_cpus), set);
  const int error = pthread_setaffinity_np(pthread_self(), CPU_ALLOC_SIZE(n_cpus), set);
  CPU_FREE(set);
  if (error != 0) {
    log_warning("cannot keep computing thread {} on the cores given (first {}); it runs on any", worker, cpus[0]);
  }
}

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(const ThreadPoolOptions& options) : spin(options.spin_us) {
    ASSERT(options.n_threads >= 1);
    for (const int cpu : options.cpus) ASSERT(cpu >= 0);
    threads.reserve(static_cast<size_t>(options.n_threads) - 1);
    shares = std::vector<Share>(static_cast<size_t>(options.n_threads));
    for (int worker = 1; worker < options.n_threads; ++worker) {
      try {
        // A thread may begin late, when nothing is to be allocated any more: it is given its name.
        std::string name = "computing thread " + system_name(worker);
        threads.emplace_back([this, worker, name = std::move(name), cpus = options.cpus]() mutable {
          name_and_place_this_thread(worker, std::move(name), cpus);
          work(worker);
        });
      } catch (const std::system_error&) {
        log_warning("the system gives no more than {} of {} computing threads; going on with those", worker,
                    options.n_threads);
        break;
      }
    }
  }

  ~Impl() {
    stop.store(true);
    signal.fetch_add(1);
    futex_wake(signal, static_cast<int>(threads.size()));
    for (std::thread& thread : threads) thread.join();
    sync_forgotten(&claim);
    sync_forgotten(&unfinished);
    for (const RoundCount& done : first_done) sync_forgotten(&done);
  }

  // A worker's life.
  void work(int worker) noexcept {
    while (!stop.load()) {
      take_pieces(worker);
      take_shares(worker);
      if (!spin_until(spin, [&] { return awaited(worker); })) sleep(worker);
    }
  }

  bool awaited(int worker) const {
    return has_open_piece(claim.load()) || has_open_piece(shares[static_cast<size_t>(worker)].word.load()) ||
           stop.load();
  }

  void sleep(int worker) {
    const Activity activity(kIdle);
    sleepers.fetch_add(1);
    const uint32_t seen = signal.load();
    if (!awaited(worker)) futex_wait(signal, seen);
    sleepers.fetch_sub(1);
  }

  // Computes pieces of the published job until none is open. A body that throws ends the program: other threads are
  // still reading what it would unwind.
  void take_pieces(int worker) noexcept {
    uint64_t word = claim.load();
    while (has_open_piece(word)) {
      if (!claim.compare_exchange_weak(word, word + 1)) continue;
      if (worker != 0) sync_acquired(&claim);
      const auto [begin, end] = items_of(static_cast<int64_t>(next_piece(word)));
      fn(context, begin, end, worker);
      if (worker != 0) sync_released(&unfinished);
      if (unfinished.fetch_sub(1) == 1 && caller_sleeps.load()) futex_wake(unfinished, 1);
      word = claim.load();
    }
  }

  // The same for shares: its own first, then those of the threads behind it. `unfinished` stands until it is told, and
  // with it the job's description.
  void take_shares(int worker) noexcept {
    Taken taken;
    for (size_t i = 0; i < shares.size();) {
      const uint32_t seen = taken.twice;
      take_first_pieces((static_cast<size_t>(worker) + i) % shares.size(), worker, taken);
      if (taken.twice == seen) {
        ++i;
        continue;
      }
      // A word that was looked at before may have been stored since.
      await_stored(taken.twice);
      i = i == 0 ? 1 : 0;
    }
    if (taken.twice != 0) taken.n += take_second_shares(worker, taken.twice);
    if (taken.n == 0) return;
    if (worker != 0) sync_released(&unfinished);
    if (unfinished.fetch_sub(taken.n) == taken.n && caller_sleeps.load()) futex_wake(unfinished, 1);
  }

  struct Taken {
    uint32_t n = 0;      // pieces
    uint32_t twice = 0;  // the phase of shares that are gone through twice; 0: none was seen
  };
  // All of a share that is gone through once; else of the first half.
  void take_first_pieces(size_t share, int worker, Taken& taken) {
    std::atomic<uint64_t>& word = shares[share].word;
    for (uint64_t seen = word.load(); has_open_piece(seen);) {
      const bool twice = goes_twice(phase_of(seen));
      if (twice) taken.twice = phase_of(seen);
      if (twice && next_piece(seen) >= n_pieces(seen) / 2) return;
      if (!claim_share(word, seen, worker)) continue;
      fn(context, static_cast<int64_t>(next_piece(seen)), static_cast<int64_t>(share), worker);
      if (twice) end_of_first(next_piece(seen));
      ++taken.n;
      seen = word.load();
    }
  }
  void await_stored(uint32_t of_phase) const {
    while (static_cast<int32_t>(stored_phase.load(std::memory_order_acquire) - of_phase) < 0) __builtin_ia32_pause();
  }

  // How many there were. No piece of the first half was left when this thread looked.
  uint32_t take_second_shares(int worker, uint32_t of_phase) {
    uint32_t n_done = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      const size_t share = (static_cast<size_t>(worker) + i) % shares.size();
      std::atomic<uint64_t>& word = shares[share].word;
      for (uint64_t seen = word.load(); has_open_piece(seen) && phase_of(seen) == of_phase;) {
        if (!claim_share(word, seen, worker)) continue;
        await_first(next_piece(seen) - n_pieces(seen) / 2);
        fn(context, static_cast<int64_t>(next_piece(seen)), static_cast<int64_t>(share), worker);
        ++n_done;
        seen = word.load();
      }
    }
    return n_done;
  }

  // On failure `seen` is what the word is.
  bool claim_share(std::atomic<uint64_t>& word, uint64_t& seen, int worker) {
    if (!word.compare_exchange_weak(seen, seen + 1)) return false;
    if (worker != 0) sync_acquired(&claim);
    return true;
  }

  void end_of_first(uint64_t round) {
    sync_released(&first_done[round]);
    first_done[round].count.fetch_add(1, std::memory_order_release);
  }
  void await_first(uint64_t round) {
    constexpr int kLooksPerYield = 4096;  // whoever is waited for may have lost its core
    for (int i = 1; first_done[round].count.load(std::memory_order_acquire) < per_level; ++i) {
      __builtin_ia32_pause();
      if (i % kLooksPerYield == 0) sched_yield();
    }
    sync_acquired(&first_done[round]);
  }

  struct Items {
    int64_t begin, end;
  };
  Items items_of(int64_t piece) const {
    const int64_t level = std::min<int64_t>(piece / per_level, n_levels - 1);
    const Level& at = levels[level];
    const int64_t begin = at.first_item + (piece - level * per_level) * at.grain;
    return {begin, begin + std::min(at.grain, end_item - begin)};
  }

  void begin_job(PieceFn job_fn, const void* job_context) {
    const bool overlaps = busy.exchange(true);
    ASSERT(!overlaps);
    fn = job_fn;
    context = job_context;
    per_level = static_cast<int64_t>(threads.size()) + 1;
  }
  void end_job() {
    busy.store(false);
    note_progress();
  }

  // One round: the items of `levels` up to end_item, in `pieces` pieces.
  void publish_and_join(int64_t pieces) {
    unfinished.store(static_cast<uint32_t>(pieces));
    sync_released(&claim);
    claim.store(claim_word(phase += 2, static_cast<uint64_t>(pieces)));
    if (sleepers.load() > 0) wake(static_cast<int>(pieces - 1));  // the caller takes a piece itself
    take_pieces(0);
    join();
  }

  // Threads that the system did not give have no share.
  void run_shares(int64_t n_rounds, bool twice) {
    const int64_t n = twice ? 2 * n_rounds : n_rounds;
    unfinished.store(static_cast<uint32_t>(n * per_level));
    phase += 2;
    if (twice) {
      for (int64_t round = 0; round < n_rounds; ++round) first_done[round].count.store(0, std::memory_order_relaxed);
    }
    sync_released(&claim);
    for (int64_t share = 0; share < per_level; ++share) {
      shares[static_cast<size_t>(share)].word.store(
          claim_word(twice ? phase + 1 : phase, static_cast<uint64_t>(n)), std::memory_order_release);
    }
    stored_phase.store(twice ? phase + 1 : phase, std::memory_order_release);
    if (sleepers.fetch_add(0) > 0) wake(static_cast<int>(per_level - 1));
    take_shares(0);
    join();
  }

  void wake(int n_threads) {
    signal.fetch_add(1);
    futex_wake(signal, n_threads);
  }

  void join() {
    if (!spin_until(spin, [this] { return unfinished.load() == 0; })) {
      const Activity activity("waits for the computing threads");
      caller_sleeps.store(true);
      for (uint32_t left = unfinished.load(); left != 0; left = unfinished.load()) futex_wait(unfinished, left);
      caller_sleeps.store(false);
    }
    sync_acquired(&unfinished);
  }

  void run(int64_t n_items, int64_t grain) {
    n_levels = 1;
    for (int64_t first = 0; first < n_items; first = end_item) {
      const int64_t left = n_items - first;
      const bool last_round = (left - 1) / grain < kPiecesMax;
      end_item = last_round ? n_items : first + kPiecesMax * grain;
      levels[0] = {first, grain};
      publish_and_join(last_round ? (left - 1) / grain + 1 : kPiecesMax);
    }
  }

  void run_shrinking(int64_t n_items, int64_t least) {
    int64_t left = (n_items - 1) / least + 1;  // in units of `least` items
    end_item = n_items;
    n_levels = 0;
    for (int64_t first = 0;;) {
      const int64_t units = std::max<int64_t>(left / (2 * per_level), 1);
      levels[n_levels++] = {first, units * least};
      if (units == 1 || n_levels == kLevelsMax) {
        return publish_and_join((n_levels - 1) * per_level + (left - 1) / units + 1);
      }
      left -= per_level * units;
      first += per_level * units * least;
    }
  }

  // The job. Written by run() while no piece is open, read by whoever holds a piece.
  PieceFn fn = nullptr;
  const void* context = nullptr;
  struct Level {
    int64_t first_item;
    int64_t grain;  // items of a piece
  };
  Level levels[kLevelsMax] = {};
  int64_t n_levels = 0;
  int64_t per_level = 1;  // pieces of a level, or shares; how many threads there are
  int64_t end_item = 0;

  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };
  std::vector<Share> shares;  // [threads that were asked for]
  struct alignas(64) RoundCount {
    std::atomic<int64_t> count{0};
  };
  RoundCount first_done[kRoundsTwiceMax];  // shares of each round that are done with the first half

  // Words that different threads hammer on lie on cache lines of their own.
  alignas(64) std::atomic<uint64_t> claim{0};
  alignas(64) std::atomic<uint32_t> stored_phase{0};  // of the last job whose shares' words are all stored
  alignas(64) std::atomic<uint32_t> unfinished{0};  // pieces of the job that are not done
  std::atomic<bool> caller_sleeps{false};
  alignas(64) std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> signal{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> busy{false};  // a job runs: catches calls that overlap

  uint32_t phase = 0;  // even
  const std::chrono::microseconds spin;
  std::vector<std::thread> threads;  // worker i is threads[i - 1]
};

ThreadPool::ThreadPool(const ThreadPoolOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::n_threads() const { return static_cast<int>(impl_->threads.size()) + 1; }

void ThreadPool::run(int64_t n_items, int64_t grain, PieceFn fn, const void* context) {
  ASSERT(n_items >= 0);
  ASSERT(grain >= 1);
  impl_->begin_job(fn, context);
  if (impl_->threads.empty() || n_items <= grain) {
    for (int64_t begin = 0; begin < n_items;) {
      const int64_t end = begin + std::min(grain, n_items - begin);
      fn(context, begin, end, 0);
      begin = end;
    }
  } else {
    impl_->run(n_items, grain);
  }
  impl_->end_job();
}

void ThreadPool::run_shares(int64_t n_rounds, PieceFn fn, const void* context) {
  ASSERT(n_rounds >= 0);
  ASSERT(n_rounds <= kPiecesMax);
  impl_->begin_job(fn, context);
  if (impl_->threads.empty()) {
    for (int64_t round = 0; round < n_rounds; round++) fn(context, round, 0, 0);
  } else if (n_rounds > 0) {
    impl_->run_shares(n_rounds, false);
  }
  impl_->end_job();
}

void ThreadPool::run_shares_twice(int64_t n_rounds, PieceFn fn, const void* context) {
  ASSERT(n_rounds >= 0);
  ASSERT(n_rounds <= kRoundsTwiceMax);
  impl_->begin_job(fn, context);
  if (impl_->threads.empty()) {
    for (int64_t piece = 0; piece < 2 * n_rounds; piece++) fn(context, piece, 0, 0);
  } else if (n_rounds > 0) {
    impl_->run_shares(n_rounds, true);
  }
  impl_->end_job();
}

void ThreadPool::run_shrinking(int64_t n_items, int64_t least, PieceFn fn, const void* context) {
  ASSERT(n_items >= 0);
  ASSERT(least >= 1);
  impl_->begin_job(fn, context);
  if (impl_->threads.empty() || n_items <= least) {
    if (n_items > 0) fn(context, 0, n_items, 0);
  } else {
    impl_->run_shrinking(n_items, least);
  }
  impl_->end_job();
}

}  // namespace strata
