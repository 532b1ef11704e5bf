#include "experts/sources/direct.h"

#include <algorithm>

#include "base/format.h"
#include "base/mutex.h"
#include "base/read_queue.h"
#include "experts/stage_pool.h"

namespace strata::experts {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;
// Longer waits are told to people.
constexpr int64_t kLongWaitNs = kNsPerS;

// Where the parts of an expert land in a buffer: one behind the other, each in whole blocks.
template <class Visit>
void for_each_part(const LayerLayout& layer, int32_t expert, size_t block, const Visit& visit) {
  size_t at = 0;
  for (const BlobPart& part : layer.parts) {
    const BlobPart::Place& place = part.places[static_cast<size_t>(expert)];
    visit(part, place, at);
    at += block_span(place.offset, part.bytes, block);
  }
}

size_t staged_bytes(const LayerLayout& layer, int32_t expert, size_t block) {
  size_t bytes = 0;
  for_each_part(layer, expert, block, [&](const BlobPart& part, const BlobPart::Place& place, size_t at) {
    bytes = at + block_span(place.offset, part.bytes, block);
  });
  return bytes;
}

using Outcome = StagePool::Claim::Outcome;

// The queue's thread reads on while the caller computes, so that the reads of a hint, and what was interrupted or came
// short, go on when nobody waits; whoever fetches only sleeps until its last expert is there.
class Direct final : public DirectSource, private ReadSink {
 public:
  explicit Direct(const DirectOptions& options) : options_(options) {}
  ~Direct() override {
    queue_.reset();  // what is under way writes into the pool's buffers
  }

  Status open() {
    std::vector<std::string> paths;
    for (const gguf::Shard& shard : options_.model.shards()) paths.push_back(shard.path);
    const ReadQueueOptions reads{.files = options_.files,
                                 .clock = options_.clock,
                                 .stats = options_.stats,
                                 .depth = options_.io_depth,
                                 .timeout_ns = options_.io_timeout_s * kNsPerS};
    ASSIGN_OR_RETURN(queue_, ReadQueue::open(paths, reads, *this));
    RETURN_IF_ERROR(check_ranges());
    ASSIGN_OR_RETURN(pool_, StagePool::create({.device = options_.device,
                                               .layout = options_.layout,
                                               .stats = options_.stats,
                                               .n_buffers = options_.n_buffers,
                                               .buffer_bytes = direct_buffer_bytes(options_.layout, block()),
                                               .alignment = block(),
                                               .pin = options_.pin,
                                               .available_ram = options_.available_ram}));
    return {};
  }

  const char* name() const override { return "direct"; }
  std::string report() const override {
    return format("experts are {}\n{}", queue_->report(), pool_->report());
  }
  int64_t lease_limit() const override { return pool_->n_asked(); }
  int64_t n_buffers() const override { return pool_->n_buffers(); }
  void end_start_up() override { pool_->end_start_up(); }

  std::optional<Lease> try_lease(ExpertKey key) override {
    const std::optional<uint32_t> place = pool_->claim_present(key);
    if (!place) return std::nullopt;
    return lease_of(key, *place);
  }

  Status fetch(std::span<const ExpertKey> keys, std::span<Lease> leases) override {
    ASSERT(keys.size() == leases.size());
    if (keys.empty()) return {};
    pool_->enter_layer(keys.front().layer);
    Call call(*this, keys, leases);
    Status status = claim(call);
    size_t next = 0;
    if (status.ok() && !call.coming.empty()) {
      options_.stats.add(Counter::kStageWaits);
      call.wait.begin();
      while (status.ok() && next < call.coming.size()) status = receive(call.coming[next++], leases);
    }
    if (status.ok()) return {};
    for (; next < call.coming.size(); next++) pool_->release(call.coming[next].place);
    for (Lease& lease : leases) lease.release();
    return status;
  }

  size_t hint(std::span<const ExpertKey> keys, HintKind kind) override {
    std::vector<Coming> reads;
    for (const ExpertKey& key : keys) {
      if (const auto place = pool_->claim_for_hint(key)) reads.push_back({key, *place, 0, true});
    }
    start(reads, kind == HintKind::kGuess ? ReadQueue::Urgency::kLikely : ReadQueue::Urgency::kNeeded);
    return reads.size();
  }

  const char* waiting_for() const override {
    const LockGuard lock(waits_mutex_);
    const auto begin_ns = std::min_element(waits_.begin(), waits_.end());
    return begin_ns != waits_.end() && options_.clock.now_ns() - *begin_ns >= kLongWaitNs ? "the drive" : nullptr;
  }

 private:
  // An expert on its way. The caller holds a lease on its place.
  struct Coming {
    ExpertKey key;
    uint32_t place;
    size_t index;  // of its key in the call
    bool mine;     // its read is this call's
  };

  // Tells waiting_for() that a call waits, and since when it has been at work.
  class Wait {
   public:
    explicit Wait(Direct& source) : source_(source), since_ns_(source.options_.clock.now_ns()) {}
    ~Wait() {
      if (!begun_) return;
      const LockGuard lock(source_.waits_mutex_);
      source_.waits_.erase(std::find(source_.waits_.begin(), source_.waits_.end(), since_ns_));
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    void begin() {
      if (std::exchange(begun_, true)) return;
      const LockGuard lock(source_.waits_mutex_);
      source_.waits_.push_back(since_ns_);
    }

   private:
    Direct& source_;
    const int64_t since_ns_;
    bool begun_ = false;
  };

  // A fetch under way.
  struct Call {
    Call(Direct& source, std::span<const ExpertKey> the_keys, std::span<Lease> the_leases)
        : keys(the_keys), leases(the_leases), wait(source) {}
    std::span<const ExpertKey> keys;
    std::span<Lease> leases;
    std::vector<Coming> coming;
    Wait wait;
  };

  size_t block() const { return queue_->block_bytes(); }

  // The files were opened anew: what was true of the model's need not be of them.
  Status check_ranges() const {
    for (const LayerLayout& layer : options_.layout.layers()) {
      for (const BlobPart& part : layer.parts) {
        for (const BlobPart::Place& place : part.places) RETURN_IF_ERROR(check_range(place, part.bytes));
      }
    }
    return {};
  }
  Status check_range(const BlobPart::Place& place, size_t bytes) const {
    const uint64_t size = queue_->file_bytes(place.shard);
    if (place.offset <= size && bytes <= size - place.offset) return {};
    return Error{ErrorCode::kIo,
                 format("{}: an expert's {} bytes at offset {} lie beyond the file's {} bytes; it has changed since it "
                        "was opened: start again",
                        options_.model.shards()[static_cast<size_t>(place.shard)].path, bytes, place.offset, size)};
  }

  // Takes the leases of what is there and claims the rest; all its reads have been started when it returns, whatever
  // it returns.
  Status claim(Call& call) {
    std::vector<Coming> to_read;
    for (size_t i = 0; i < call.keys.size(); i++) {
      StagePool::Claim claim = pool_->claim(call.keys[i]);
      while (claim.outcome == Outcome::kNoRoom) {
        start(to_read, ReadQueue::Urgency::kNeeded);
        to_read.clear();
        call.wait.begin();
        RETURN_IF_ERROR(pool_->make_room());
        claim = pool_->claim(call.keys[i]);
      }
      if (claim.outcome == Outcome::kHere) {
        call.leases[i] = lease_of(call.keys[i], claim.place);
        continue;
      }
      call.coming.push_back({call.keys[i], claim.place, i, claim.outcome == Outcome::kMine});
      if (call.coming.back().mine) {
        to_read.push_back(call.coming.back());
      } else {
        queue_->expedite(claim.place);
      }
    }
    start(to_read, ReadQueue::Urgency::kNeeded);
    return {};
  }

  // Waits for one expert. If another call's read of it failed, reads it itself.
  Status receive(Coming expert, std::span<Lease> leases) {
    for (;;) {
      Status status = pool_->wait(expert.place);
      if (status.ok()) {
        leases[expert.index] = lease_of(expert.key, expert.place);
        return {};
      }
      if (expert.mine) return status;
      Call again(*this, {&expert.key, 1}, leases.subspan(expert.index, 1));
      RETURN_IF_ERROR(claim(again));
      if (again.coming.empty()) return {};  // it has come meanwhile
      expert.place = again.coming.front().place;
      expert.mine = again.coming.front().mine;
    }
  }

  // Those that no copy reads any more at once, so that the drive has all of them to choose from; the others one by one,
  // each after the copies out of its buffer.
  void start(std::span<const Coming> experts, ReadQueue::Urgency urgency) {
    std::vector<BlockRead> batch;
    std::vector<Coming> read_by_copies;
    for (const Coming& expert : experts) {
      if (!pool_->try_prepare(expert.place)) {
        read_by_copies.push_back(expert);
        continue;
      }
      add_reads(expert, batch);
    }
    if (!batch.empty()) queue_->submit(batch, urgency);
    for (const Coming& expert : read_by_copies) {
      pool_->prepare(expert.place);
      batch.clear();
      add_reads(expert, batch);
      queue_->submit(batch, urgency);
    }
  }

  void add_reads(const Coming& expert, std::vector<BlockRead>& batch) const {
    std::byte* blob = pool_->place(expert.place).address();
    for_each_part(options_.layout.layer(expert.key.layer), expert.key.expert, block(),
                  [&](const BlobPart& part, const BlobPart::Place& place, size_t at) {
                    batch.push_back({expert.place, place.shard, place.offset, part.bytes, blob + at});
                  });
  }

  Lease lease_of(ExpertKey key, uint32_t at) {
    const StagePool::Place place = pool_->place(at);
    const std::byte* parts[kMaxParts];
    size_t n = 0;
    for_each_part(options_.layout.layer(key.layer), key.expert, block(),
                  [&](const BlobPart&, const BlobPart::Place& in_file, size_t in_blob) {
                    parts[n++] = place.address() + in_blob + in_file.offset % block();
                  });
    return make_lease(key, at, {parts, n}, place.buffer);
  }

  void release(uint32_t place) override { pool_->release(place); }
  void note_async_read(uint32_t place, device::Stream& stream) override { pool_->note_async_read(place, stream); }

  void read_ended(uint64_t tag, const Status& status, bool released) override {
    pool_->filled(static_cast<uint32_t>(tag), status, released);
  }
  void read_released(uint64_t tag) override { pool_->settled(static_cast<uint32_t>(tag)); }

  const DirectOptions options_;
  std::unique_ptr<StagePool> pool_;
  std::unique_ptr<ReadQueue> queue_;

  mutable Mutex waits_mutex_;
  std::vector<int64_t> waits_;  // when each call began that waits for a read
};

}  // namespace

uint64_t direct_buffer_bytes(const ExpertLayout& layout, size_t alignment) {
  size_t largest = 0;
  for (const LayerLayout& layer : layout.layers()) {
    for (int32_t e = 0; e < layer.n_experts; e++) largest = std::max(largest, staged_bytes(layer, e, alignment));
  }
  return largest;
}

Result<std::unique_ptr<DirectSource>> make_direct_source(const DirectOptions& options) {
  auto source = std::make_unique<Direct>(options);
  RETURN_IF_ERROR(source->open());
  return std::unique_ptr<DirectSource>(std::move(source));
}

}  // namespace strata::experts
