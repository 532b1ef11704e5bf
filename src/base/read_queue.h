// Reads of files that go on beside the program: batches are put in the drive's order, neighbours are read as one, and a
// given number of reads is under way at once. Where the system allows it they are direct (past the page cache) and run
// on io_uring; else as good as it gets, and report() says so.
//
// A thread of the queue starts reads, takes their results and tries again what was interrupted or came short, so that
// they go on whatever the callers do meanwhile.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/read_plan.h"
#include "base/read_ring.h"
#include "base/stats.h"

namespace strata {

// Told how jobs end, by the queue's thread, which must not be held up and must not submit.
class ReadSink {
 public:
  virtual ~ReadSink() = default;
  // All bytes of the job are there, or will not come: kIo names file, offset and size of what could not be read.
  // Called once. Nothing writes into the job's memory any more, except when it took too long: then, with `released`
  // false, read_released follows when the system has let go of it.
  virtual void read_ended(uint64_t tag, const Status& status, bool released) = 0;
  virtual void read_released(uint64_t tag) = 0;
};

struct ReadQueueOptions {
  FileSystem& files;
  Clock& clock;
  Stats& stats;
  int depth = 32;                                 // reads under way at once; 1 to kReadDepthMax
  int64_t timeout_ns = 600 * int64_t{1'000'000'000};  // of a job, from its submission
  Counter n_reads = Counter::kFileReads;          // what the reads of the system count as
  Counter n_bytes = Counter::kFileReadBytes;      // and their bytes
};
inline constexpr int kReadDepthMax = 1024;

class ReadQueue {
 public:
  enum class Urgency {
    kNeeded,
    kLikely,  // waits until no needed read is in line or under way
  };

  // Opens the files, which BlockRead names by their index. `sink` outlives the queue. Errors are those of
  // FileSystem::open.
  static Result<std::unique_ptr<ReadQueue>> open(const std::vector<std::string>& paths, const ReadQueueOptions& options,
                                                 ReadSink& sink);
  // Jobs that have not started end with kCancelled; waits until nothing writes into the memory of the others.
  ~ReadQueue();

  // What offsets and addresses of reads are multiples of; `blocks` of a BlockRead has to be.
  size_t block_bytes() const { return block_bytes_; }
  uint64_t file_bytes(int32_t file) const { return files_[static_cast<size_t>(file)]->size(); }
  // How files are read, one or two lines for people.
  const std::string& report() const { return report_; }

  // Starts to read. The reads of one tag are one job; the tag may be used again once the job was released. Returns at
  // once. Ranges lie within their files. Any thread.
  void submit(std::span<const BlockRead> batch, Urgency urgency);
  // That job is kNeeded from now on. Any thread; unknown tags are nothing.
  void expedite(uint64_t tag);

 private:
  struct Job {
    BlockRead first;        // for messages
    int64_t submitted_ns = 0;
    int n_reads = 0;        // that have not ended
    bool late = false;      // has ended for its owner
    Status status = {};     // the first failure
    bool given_up() const { return late || !status.ok(); }
  };
  // One read of the system, in line or under way.
  struct Read {
    PlannedRead plan;
    Urgency urgency = Urgency::kNeeded;
    std::vector<iovec> rest;  // what is under way of plan.into
    uint64_t rest_offset = 0;
    uint64_t reached = 0;  // end of what has come
    int interruptions = 0;
  };
  struct Notice {
    uint64_t tag;
    enum class Kind { kEnded, kLate, kReleased } kind;
    Status status;
  };

  ReadQueue(const ReadQueueOptions& options, ReadSink& sink) : options_(options), sink_(sink) {}
  Status open_files(const std::vector<std::string>& paths);
  void choose_ring();

  void work();
  void tell();
  // All below hold the mutex; what there is to tell goes into notices_.
  void start_reads();
  void start_line(Urgency urgency);
  void start(std::unique_ptr<Read> read);
  void enqueue(std::unique_ptr<Read> read) { lines_[static_cast<size_t>(read->urgency)].push_back(std::move(read)); }
  void take_result(RingResult result);
  void go_on(std::unique_ptr<Read> read);
  void succeed(const Read& read);
  void fail(std::unique_ptr<Read> read, const Error& error);
  void read_is_over(const PlannedRead& plan);
  bool wanted(const Read& read) const;
  void drop_unwanted();
  void end_late_jobs();
  void cancel_waiting();
  Error cannot_read(const Read& read, const std::string& why) const;

  ReadQueueOptions options_;
  ReadSink& sink_;
  std::vector<std::unique_ptr<File>> files_;
  size_t block_bytes_ = 0;
  std::string report_;
  std::unique_ptr<ReadRing> ring_;  // used by the thread, except for wake()

  Mutex mutex_;
  std::deque<std::unique_ptr<Read>> lines_[2];  // by urgency
  std::unordered_map<uint64_t, Job> jobs_;      // by tag, until released
  std::unordered_map<uint64_t, std::unique_ptr<Read>> under_way_;
  std::vector<Notice> notices_;
  uint64_t next_id_ = 0;
  bool stop_ = false;
  std::unique_ptr<Thread> thread_;  // last: it uses the rest
};

}  // namespace strata
