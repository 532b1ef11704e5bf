// Rows that are read when they are asked for, past the page cache: the blocks that hold them and nothing else, in the
// drive's order, into slots that are used again as soon as a row was taken out.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <vector>

#include "base/activity.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/read_queue.h"
#include "model/ngram/table.h"

namespace strata::model {
namespace {

// Blocks of rows that are read ahead of their use. A step of few rows needs a fraction of it; one that wants more rows
// reads on while it takes them.
constexpr uint64_t kSlotBytesMost = 32 * kMiB;
// A quarter of the slots is read into at once, so that the drive has a choice.
constexpr size_t kRefillShare = 4;
// Small reads at random places: a drive answers more of them the more it has.
constexpr int kDepth = 64;
constexpr size_t kUsualBlock = 4096;
constexpr int64_t kNsPerS = 1'000'000'000;
// How often a wait for room is held against its time limit.
constexpr std::chrono::milliseconds kLatenessCheck{100};

// For the blocks of one row, wherever it begins.
size_t slot_bytes(const gguf::TensorInfo& tensor, size_t block) {
  return static_cast<size_t>(align_up(tensor.row_bytes + block - 1, block));
}
size_t n_slots(const gguf::TensorInfo& tensor, size_t block, int64_t max_rows) {
  const uint64_t most = std::max<uint64_t>(1, kSlotBytesMost / slot_bytes(tensor, block));
  return static_cast<size_t>(std::min(most, static_cast<uint64_t>(max_rows)));
}

class DirectTable final : public RowTable, private ReadSink {
 public:
  explicit DirectTable(const TableSpec& spec) : spec_(spec) {}
  ~DirectTable() override {
    queue_.reset();  // what is under way writes into the slots
  }

  static Result<std::unique_ptr<RowTable>> open(const TableSpec& spec) {
    auto table = std::make_unique<DirectTable>(spec);
    RETURN_IF_ERROR(table->open_file());
    return std::unique_ptr<RowTable>(std::move(table));
  }

  void want(std::span<const int64_t> rows) override {
    const LockGuard lock(mutex_);
    ASSERT(rows.size() <= static_cast<size_t>(spec_.max_rows));
    for (uint32_t s = 0; s < slots_.size(); s++) leave(s);
    rows_.assign(rows.begin(), rows.end());
    slot_of_.assign(rows.size(), kNone);
    next_ = 0;
    refill();
  }

  Status take(size_t i, std::span<std::byte> to) override {
    const LockGuard lock(mutex_);
    RETURN_IF_ERROR(await(i));
    const uint32_t s = slot_of_[i];
    Slot& slot = slots_[s];
    Status status = std::move(slot.status);
    if (status.ok()) {
      const size_t at = slot.at + static_cast<size_t>(offset_of(rows_[i]) % queue_->block_bytes());
      const auto row = memory_->read<std::byte>(at, spec_.tensor.row_bytes);
      std::memcpy(to.data(), row.span().data(), row.span().size());
    }
    leave(s);
    if (free_.size() * kRefillShare >= slots_.size()) refill();
    return status;
  }

  std::string report() const override { return queue_->report(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Room for the blocks of a row. Free, or one row's from the submission of its read until the row was taken (or is
  // wanted no more) and nothing writes into it.
  struct Slot {
    size_t at = 0;        // in memory_, a multiple of the block
    bool wanted = false;  // by a row of the present want()
    bool ended = true;
    bool released = true;
    Status status = {};
    device::HostBuffer::IncomingRead incoming = {};
  };

  Status open_file() {
    const gguf::Shard& shard = spec_.model.shards()[static_cast<size_t>(spec_.tensor.shard)];
    const ReadQueueOptions reads{.files = spec_.files,
                                 .clock = spec_.clock,
                                 .stats = spec_.stats,
                                 .depth = kDepth,
                                 .timeout_ns = spec_.io_timeout_s * kNsPerS,
                                 .n_reads = Counter::kNgramReads,
                                 .n_bytes = Counter::kNgramReadBytes};
    ASSIGN_OR_RETURN(queue_, ReadQueue::open({shard.path}, reads, *this));
    if (queue_->file_bytes(0) < spec_.tensor.file_offset + spec_.tensor.bytes) {
      return Error{ErrorCode::kIo, format("{}: tensor {} ends beyond the file's {} bytes; it has changed since it was "
                                          "opened: start again",
                                          shard.path, spec_.tensor.name, queue_->file_bytes(0))};
    }
    const size_t block = queue_->block_bytes();
    slots_.resize(n_slots(spec_.tensor, block, spec_.max_rows));
    const size_t bytes = slots_.size() * slot_bytes(spec_.tensor, block) + block;
    ASSIGN_OR_RETURN(memory_, spec_.device.allocate_host(bytes, device::MemoryKind::kPageable,
                                                         format("rows of {} on their way", spec_.tensor.name)));
    const auto address = reinterpret_cast<uintptr_t>(memory_->address());
    size_t at = static_cast<size_t>(align_up(address, block) - address);
    for (Slot& slot : slots_) {
      slot.at = at;
      at += slot_bytes(spec_.tensor, block);
    }
    for (uint32_t s = static_cast<uint32_t>(slots_.size()); s-- > 0;) free_.push_back(s);
    const auto max_rows = static_cast<size_t>(spec_.max_rows);
    rows_.reserve(max_rows);
    slot_of_.reserve(max_rows);
    batch_.reserve(slots_.size());
    return {};
  }

  uint64_t offset_of(int64_t row) const {
    return spec_.tensor.file_offset + static_cast<uint64_t>(row) * spec_.tensor.row_bytes;
  }

  // All below hold the mutex.

  // Starts to read the next rows, as far as there are slots.
  void refill() {
    batch_.clear();
    for (; next_ < rows_.size() && !free_.empty(); next_++) {
      const uint32_t s = free_.back();
      free_.pop_back();
      Slot& slot = slots_[s];
      slot.wanted = true;
      slot.ended = slot.released = false;
      slot.status = {};
      const uint64_t offset = offset_of(rows_[next_]);
      const size_t bytes = spec_.tensor.row_bytes;
      slot.incoming = memory_->submit_read(slot.at, block_span(offset, bytes, queue_->block_bytes()));
      batch_.push_back({s, 0, offset, bytes, memory_->address() + slot.at});
      slot_of_[next_] = s;
    }
    if (!batch_.empty()) queue_->submit(batch_, ReadQueue::Urgency::kNeeded);
  }

  // Until the read of row i has ended, well or not. Those of rows in slots do so by themselves; a row that finds none
  // waits for those that an earlier want() has left under way.
  Status await(size_t i) {
    const auto ended = [&] { return slot_of_[i] != kNone && slots_[slot_of_[i]].ended; };
    if (ended()) return {};
    const int64_t begin_ns = spec_.clock.now_ns();
    spec_.stats.add(Counter::kNgramWaits);
    const Activity activity("waits for a row of the n-gram table");
    for (refill(); !ended(); refill()) {
      if (slot_of_[i] == kNone && spec_.clock.now_ns() - begin_ns >= spec_.io_timeout_s * kNsPerS) {
        return Error{ErrorCode::kIo, format("cannot read a row of {}: earlier reads have not come back for {} s; look "
                                            "after the drive",
                                            spec_.tensor.name, spec_.io_timeout_s)};
      }
      changed_.wait_for(mutex_, kLatenessCheck);
    }
    return {};
  }

  // No row of the present want() needs what the slot brings or has brought.
  void leave(uint32_t s) {
    if (!slots_[s].wanted) return;
    slots_[s].wanted = false;
    free_if_over(s);
  }
  void free_if_over(uint32_t s) {
    const Slot& slot = slots_[s];
    if (!slot.wanted && slot.ended && slot.released) free_.push_back(s);
  }

  void read_ended(uint64_t tag, const Status& status, bool released) override {
    const LockGuard lock(mutex_);
    Slot& slot = slots_[tag];
    slot.ended = true;
    slot.status = status;
    if (released) release(slot);
    free_if_over(static_cast<uint32_t>(tag));
    changed_.notify_all();
  }
  void read_released(uint64_t tag) override {
    const LockGuard lock(mutex_);
    release(slots_[tag]);
    free_if_over(static_cast<uint32_t>(tag));
    changed_.notify_all();
  }
  static void release(Slot& slot) {
    slot.incoming.reap();
    slot.released = true;
  }

  const TableSpec spec_;
  std::unique_ptr<device::HostBuffer> memory_;
  std::unique_ptr<ReadQueue> queue_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<int64_t> rows_;      // that are wanted
  std::vector<uint32_t> slot_of_;  // [rows]
  size_t next_ = 0;                // of rows_, to be read
  std::vector<BlockRead> batch_;
};

}  // namespace

const TableKind kDirectTable{"direct", DirectTable::open, [](const gguf::TensorInfo& tensor, int64_t max_rows) {
                               const size_t slots = n_slots(tensor, kUsualBlock, max_rows);
                               return uint64_t{slots * slot_bytes(tensor, kUsualBlock) + kUsualBlock};
                             }};

}  // namespace strata::model
