#include "base/read_queue.h"

#include <algorithm>
#include <cstring>

#include "base/activity.h"
#include "base/counted.h"
#include "base/format.h"

namespace strata {
namespace {

// Below this, blocks would be smaller than the page that the system reads anyway.
constexpr size_t kBlockBytesMin = 4096;
// Longer reads are cut, so that a batch of few long ones still keeps the drive's queue filled.
constexpr size_t kReadBytesMax = 2 * kMiB;
// Threads that read where there is no io_uring.
constexpr int kThreadsMax = 16;
// A file system that interrupts every attempt must not hang a job.
constexpr int kInterruptionsMax = 10'000;
// How often running jobs are held against their time limit.
constexpr int64_t kLatenessCheckNs = 100'000'000;
constexpr int64_t kNsPerS = 1'000'000'000;
constexpr const char* kReading = "waits for the drive, reads under way:";

std::string thread_name(const std::vector<std::string>& paths) {
  const std::string more = paths.size() > 1 ? format(" and {} more", paths.size() - 1) : "";
  return paths.empty() ? "reads of no file" : format("reads of {}{}", printable(paths.front()), more);
}

}  // namespace

Result<std::unique_ptr<ReadQueue>> ReadQueue::open(const std::vector<std::string>& paths,
                                                   const ReadQueueOptions& options, ReadSink& sink) {
  ASSERT(options.depth >= 1);
  ASSERT(options.depth <= kReadDepthMax);
  std::unique_ptr<ReadQueue> queue(new ReadQueue(options, sink));
  RETURN_IF_ERROR(queue->open_files(paths));
  queue->thread_ = std::make_unique<Thread>([q = queue.get(), name = thread_name(paths)] {
    name_this_thread(name);
    q->work();
  });
  return queue;
}

ReadQueue::~ReadQueue() {
  if (!thread_) return;  // a file could not be opened
  {
    const LockGuard lock(mutex_);
    stop_ = true;
  }
  ring_->wake();
  thread_->join();
}

Status ReadQueue::open_files(const std::vector<std::string>& paths) {
  block_bytes_ = kBlockBytesMin;
  std::string not_direct;
  for (const std::string& path : paths) {
    auto file = options_.files.open_direct(path);
    if (!file.ok() && file.error().code == ErrorCode::kUnsupported) {
      if (not_direct.empty()) not_direct = file.error().message;
      file = options_.files.open(path);
    }
    if (!file.ok()) return std::move(file).error();
    block_bytes_ = std::max(block_bytes_, (*file)->read_alignment());
    files_.push_back(std::move(file).value());
  }
  choose_ring();
  report_ += not_direct.empty() ? ", past the page cache" : format(", through the page cache: {}", not_direct);
  return {};
}

void ReadQueue::choose_ring() {
  const auto in_memory = [](const std::unique_ptr<File>& file) { return file->descriptor() < 0; };
  const int n_threads = std::min(options_.depth, kThreadsMax);
  if (std::any_of(files_.begin(), files_.end(), in_memory)) {
    ring_ = make_thread_ring(n_threads);
    report_ = format("read by {}", counted(n_threads, "thread"));
  } else if (auto ring = make_uring(options_.depth); ring.ok()) {
    ring_ = std::move(ring).value();
    report_ = format("read with io_uring, {} at once", options_.depth);
  } else {
    ring_ = make_thread_ring(n_threads);
    report_ = format("read by {} ({})", counted(n_threads, "thread"), ring.error().message);
  }
}

void ReadQueue::submit(std::span<const BlockRead> batch, Urgency urgency) {
  for (const BlockRead& read : batch) {
    ASSERT(read.offset <= file_bytes(read.file));
    ASSERT(read.bytes <= file_bytes(read.file) - read.offset);
    ASSERT(reinterpret_cast<uintptr_t>(read.blocks) % block_bytes_ == 0);
  }
  std::vector<PlannedRead> plans = plan_reads(batch, block_bytes_, kReadBytesMax / block_bytes_ * block_bytes_);
  const int64_t now_ns = options_.clock.now_ns();
  {
    const LockGuard lock(mutex_);
    ASSERT(!stop_);
    for (PlannedRead& plan : plans) {
      for (const BlockRead& wanted : plan.wanted) {
        Job& job = jobs_.try_emplace(wanted.tag, Job{.first = wanted, .submitted_ns = now_ns}).first->second;
        job.n_reads++;
      }
      auto read = std::make_unique<Read>();
      read->plan = std::move(plan);
      read->urgency = urgency;
      enqueue(std::move(read));
    }
  }
  ring_->wake();
}

void ReadQueue::expedite(uint64_t tag) {
  const LockGuard lock(mutex_);
  const auto is_of_job = [&](const Read& read) {
    return std::ranges::any_of(read.plan.wanted, [&](const BlockRead& w) { return w.tag == tag; });
  };
  auto& likely = lines_[static_cast<size_t>(Urgency::kLikely)];
  for (auto at = likely.begin(); at != likely.end();) {
    if (!is_of_job(**at)) {
      ++at;
      continue;
    }
    (*at)->urgency = Urgency::kNeeded;
    enqueue(std::move(*at));
    at = likely.erase(at);
  }
  for (auto& [id, read] : under_way_) {
    if (is_of_job(*read)) read->urgency = Urgency::kNeeded;
  }
}

void ReadQueue::work() {
  std::vector<RingResult> results;
  for (;;) {
    int64_t wait_ns = -1;
    bool over = false;
    int64_t n_under_way = 0;
    {
      const LockGuard lock(mutex_);
      for (RingResult& result : results) take_result(std::move(result));
      results.clear();
      end_late_jobs();
      if (stop_) cancel_waiting();
      drop_unwanted();
      start_reads();
      if (!jobs_.empty()) wait_ns = kLatenessCheckNs;
      n_under_way = std::ssize(under_way_);
      over = stop_ && under_way_.empty();
    }
    ring_->flush();  // those who are told now may take the core from this thread
    tell();
    if (over) return;
    const Activity activity(n_under_way == 0 ? kIdle : kReading, n_under_way);
    ring_->wait(wait_ns, results);
  }
}

// Without the lock: the sink takes its own, under which others may be submitting.
void ReadQueue::tell() {
  std::vector<Notice> notices;
  {
    const LockGuard lock(mutex_);
    notices.swap(notices_);
  }
  for (const Notice& notice : notices) {
    if (notice.kind == Notice::Kind::kReleased) {
      sink_.read_released(notice.tag);
    } else {
      sink_.read_ended(notice.tag, notice.status, notice.kind == Notice::Kind::kEnded);
    }
  }
}

// A drive shares its rate among the reads it has, and some report none before all are done: what is only likely to be
// needed would hold up what is.
void ReadQueue::start_reads() {
  start_line(Urgency::kNeeded);
  const auto needed = [](const auto& entry) { return entry.second->urgency == Urgency::kNeeded; };
  if (std::none_of(under_way_.begin(), under_way_.end(), needed)) start_line(Urgency::kLikely);
}

void ReadQueue::start_line(Urgency urgency) {
  auto& line = lines_[static_cast<size_t>(urgency)];
  while (!line.empty() && under_way_.size() < static_cast<size_t>(options_.depth)) {
    std::unique_ptr<Read> read = std::move(line.front());
    line.pop_front();
    if (read->rest.empty()) {
      read->rest = read->plan.into;
      read->rest_offset = read->reached = read->plan.offset;
    }
    start(std::move(read));
  }
}

void ReadQueue::start(std::unique_ptr<Read> read) {
  options_.stats.add(options_.n_reads);
  const uint64_t id = next_id_++;
  ring_->start({id, files_[static_cast<size_t>(read->plan.file)].get(), read->rest_offset, read->rest});
  under_way_.emplace(id, std::move(read));
}

void ReadQueue::take_result(RingResult result) {
  auto node = under_way_.extract(result.id);
  ASSERT(!node.empty());
  std::unique_ptr<Read> read = std::move(node.mapped());
  if (!result.n.ok()) {
    if (result.n.error().code != ErrorCode::kInterrupted) return fail(std::move(read), result.n.error());
    if (++read->interruptions == kInterruptionsMax) {
      const Error error = cannot_read(*read, "interrupted again and again");
      return fail(std::move(read), error);
    }
    return enqueue(std::move(read));
  }
  const uint64_t end = read->rest_offset + *result.n;
  options_.stats.add(options_.n_bytes, static_cast<int64_t>(*result.n));
  if (end >= read->plan.needed_end) return succeed(*read);
  if (end <= read->reached) {
    const Error error = cannot_read(*read, format("the file ends at {} (truncated?)", end));
    return fail(std::move(read), error);
  }
  read->reached = end;
  go_on(std::move(read));
}

// The rest of a read that came short, from a border at which a read may start.
void ReadQueue::go_on(std::unique_ptr<Read> read) {
  const size_t alignment = files_[static_cast<size_t>(read->plan.file)]->read_alignment();
  read->interruptions = 0;
  read->rest_offset = read->reached / alignment * alignment;
  read->rest.clear();
  uint64_t skip = read->rest_offset - read->plan.offset;
  for (const iovec& segment : read->plan.into) {
    if (skip >= segment.iov_len) {
      skip -= segment.iov_len;
    } else {
      read->rest.push_back({static_cast<std::byte*>(segment.iov_base) + skip, segment.iov_len - skip});
      skip = 0;
    }
  }
  enqueue(std::move(read));
}

void ReadQueue::succeed(const Read& read) {
  for (const PlannedRead::Share& share : read.plan.shares) std::memcpy(share.to, share.from, share.bytes);
  read_is_over(read.plan);
}

// Of several jobs, each is read alone once more: bytes that one of them can't have don't hurt the others.
void ReadQueue::fail(std::unique_ptr<Read> read, const Error& error) {
  if (read->plan.wanted.size() > 1) {
    for (const BlockRead& wanted : read->plan.wanted) {
      auto alone = std::make_unique<Read>();
      alone->plan = std::move(plan_reads({&wanted, 1}, block_bytes_, read->plan.bytes).front());
      alone->urgency = read->urgency;
      enqueue(std::move(alone));
    }
    return;
  }
  Job& job = jobs_.at(read->plan.wanted.front().tag);
  if (job.status.ok()) job.status = error;
  read_is_over(read->plan);
}

// The last read of a job ends it.
void ReadQueue::read_is_over(const PlannedRead& plan) {
  for (const BlockRead& wanted : plan.wanted) {
    const auto at = jobs_.find(wanted.tag);
    Job& job = at->second;
    if (--job.n_reads > 0) continue;
    notices_.push_back({wanted.tag, job.late ? Notice::Kind::kReleased : Notice::Kind::kEnded, std::move(job.status)});
    jobs_.erase(at);
  }
}

bool ReadQueue::wanted(const Read& read) const {
  const auto& wanted = read.plan.wanted;
  return std::any_of(wanted.begin(), wanted.end(), [&](const BlockRead& w) { return !jobs_.at(w.tag).given_up(); });
}

void ReadQueue::drop_unwanted() {
  for (auto& line : lines_) {
    const auto kept = std::stable_partition(line.begin(), line.end(), [&](const auto& r) { return wanted(*r); });
    for (auto dropped = kept; dropped != line.end(); ++dropped) read_is_over((*dropped)->plan);
    line.erase(kept, line.end());
  }
}

void ReadQueue::end_late_jobs() {
  const int64_t now_ns = options_.clock.now_ns();
  for (auto& [tag, job] : jobs_) {
    if (job.late || now_ns - job.submitted_ns < options_.timeout_ns) continue;
    job.late = true;
    const Error late{ErrorCode::kIo, format("cannot read {} bytes at offset {} of {}: no answer for {} s; look after "
                                            "the drive, or allow more with --io-timeout-s",
                                            job.first.bytes, job.first.offset,
                                            printable(files_[static_cast<size_t>(job.first.file)]->path()),
                                            options_.timeout_ns / kNsPerS)};
    notices_.push_back({tag, Notice::Kind::kLate, job.status.ok() ? Status(late) : std::move(job.status)});
    job.status = {};
  }
}

void ReadQueue::cancel_waiting() {
  for (const auto& line : lines_) {
    for (const auto& read : line) {
      for (const BlockRead& wanted : read->plan.wanted) {
        Job& job = jobs_.at(wanted.tag);
        if (job.given_up()) continue;
        job.status = Error{ErrorCode::kCancelled, "the read was given up because the model is being closed"};
      }
    }
  }
}

Error ReadQueue::cannot_read(const Read& read, const std::string& why) const {
  return {ErrorCode::kIo, format("cannot read {} bytes at offset {} of {}: {}",
                                 read.plan.needed_end - read.plan.offset, read.plan.offset,
                                 printable(files_[static_cast<size_t>(read.plan.file)]->path()), why)};
}

}  // namespace strata
