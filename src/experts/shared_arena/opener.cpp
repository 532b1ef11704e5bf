#include "experts/shared_arena/opener.h"

#include <algorithm>
#include <optional>

#include "base/activity.h"
#include "base/bytes.h"
#include "base/ending.h"
#include "base/format.h"
#include "experts/shared_arena/loader.h"

namespace strata::experts::shared_arena {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;
// Often enough that nobody waits longer than a person notices, once the arena is there.
constexpr int64_t kWaitNs = 10'000'000;
// Each time the file was replaced between two steps; no sane use of the path does that so often.
constexpr int kOpensMax = 1000;
constexpr uint64_t kPopulateBytes = 64 * kMiB;

class Opening {
 public:
  explicit Opening(const OpenSpec& spec) : spec_(spec) {}

  Result<Opened> run() {
    const int64_t begin_ns = spec_.clock.now_ns();
    ASSIGN_OR_RETURN(identity_, identity_of(spec_.model, spec_.layout));
    for (Step step = Step::kOpen; step != Step::kAttached;) {
      spec_.watcher.step(step);
      if (step == Step::kFailed) return error_;
      step = next(step, perform(step));
    }
    spec_.watcher.step(Step::kAttached);
    ASSIGN_OR_RETURN(Opened opened, attach());
    opened.took_ns = spec_.clock.now_ns() - begin_ns - waited_ns_;
    return opened;
  }

 private:
  Seen perform(Step step);
  Seen open();
  Seen create();
  Seen lock(uint64_t byte, SharedFile::Lock kind);
  Seen wait();
  void report_wait(const LoaderState& loader, int64_t waited_ns);
  Error stuck(const LoaderState& loader) const;
  Seen compare() const { return file_->is_at_path() ? Seen::kSame : Seen::kOther; }
  Seen inspect();
  Seen claim();
  Seen remove();
  Seen load();
  Seen discard();
  Result<Opened> attach();
  Result<std::vector<std::byte>> read_header(size_t bytes = kHeaderRead) const;

  // The first failure is what is reported; what follows only puts things in order.
  Seen fail(Error error, Seen seen = Seen::kError) {
    if (error_.message.empty()) error_ = std::move(error);
    return seen;
  }
  Seen done(const Status& status) { return status.ok() ? Seen::kDone : fail(status.error()); }
  Error failure(ErrorCode code, const std::string& what) const {
    return {code, format("shared arena {}: {}", printable(spec_.path), what)};
  }

  const OpenSpec& spec_;
  Identity identity_;
  Error error_;
  int n_opens_ = 0;
  std::optional<SharedFile> file_;
  SharedFile::Size size_;          // what inspect() found, and
  Kind kind_ = Kind::kUnfinished;  // what that means
  uint64_t checksum_ = 0;

  std::optional<Loader> loader_;
  std::optional<UnfinishedFile> unfinished_;  // while a signal that ends the process should remove it

  // Of the wait.
  std::optional<int64_t> wait_began_ns_;
  int64_t waited_ns_ = 0;
  LoaderState seen_loader_;
  int64_t progress_ns_ = 0;  // when it was last seen to do something
  std::optional<uint32_t> reported_pid_;
  int64_t next_report_ns_ = 0;
};

Seen Opening::perform(Step step) {
  if (step != Step::kWait && step != Step::kLockFill) wait_began_ns_.reset();
  switch (step) {
    case Step::kOpen:
      return open();
    case Step::kCreate:
      return create();
    case Step::kLockFill:
      return lock(kFillByte, SharedFile::Lock::kExclusive);
    case Step::kWait:
      return wait();
    case Step::kCompare:
    case Step::kCompareShared:
      return compare();
    case Step::kInspect:
      return inspect();
    case Step::kClaimToRemove:
    case Step::kClaimToLoad:
      return claim();
    case Step::kRemove:
      return remove();
    case Step::kLoad:
      return load();
    case Step::kDiscard:
      return discard();
    case Step::kPublish:
      return done(loader_->publish());
    case Step::kKeep:
      unfinished_.reset();
      return lock(kUserByte, SharedFile::Lock::kShared);
    case Step::kShare:
      return lock(kUserByte, SharedFile::Lock::kShared);
    case Step::kRelease:
      return done(file_->unlock(kFillByte));
    case Step::kAttached:
    case Step::kFailed:
      break;
  }
  return Seen::kError;
}

Seen Opening::open() {
  file_.reset();
  if (++n_opens_ > kOpensMax) {
    return fail(failure(ErrorCode::kIo, "the file is replaced again and again; see which programs use it"));
  }
  Result<std::optional<SharedFile>> file = SharedFile::open(spec_.path);
  if (!file.ok()) return fail(failure(file.error().code, file.error().message));
  file_ = std::move(*file);
  return file_ ? Seen::kDone : Seen::kMissing;
}

Seen Opening::create() {
  Result<std::optional<SharedFile>> file = SharedFile::create(spec_.path);
  if (!file.ok()) return fail(failure(file.error().code, file.error().message));
  file_ = std::move(*file);
  return file_ ? Seen::kDone : Seen::kExists;
}

Seen Opening::lock(uint64_t byte, SharedFile::Lock kind) {
  const Result<bool> had = file_->try_lock(byte, kind);
  if (!had.ok()) return fail(had.error());
  return *had ? Seen::kDone : Seen::kBusy;
}

Seen Opening::wait() {
  const int64_t now_ns = spec_.clock.now_ns();
  const Result<std::vector<std::byte>> header = read_header();
  if (!header.ok()) return fail(header.error());
  const LoaderState loader = loader_of(*header);
  if (!wait_began_ns_) {
    wait_began_ns_ = progress_ns_ = now_ns;
    reported_pid_.reset();
  }
  if (loader != seen_loader_) {
    progress_ns_ = now_ns;
    note_progress();
  }
  seen_loader_ = loader;
  report_wait(loader, now_ns - *wait_began_ns_);
  if (now_ns - progress_ns_ >= spec_.timeout_s * kNsPerS) return fail(stuck(loader), Seen::kStuck);
  const Activity activity("waits for another engine that loads the shared arena");
  spec_.clock.sleep_ns(kWaitNs);
  waited_ns_ += spec_.clock.now_ns() - now_ns;
  return Seen::kDone;
}

// Of a published file FILL is held for moments only, by engines that attach: nothing to speak of.
void Opening::report_wait(const LoaderState& loader, int64_t waited_ns) {
  if (loader.published || (reported_pid_ == loader.pid && waited_ns < next_report_ns_)) return;
  spec_.watcher.waiting(loader.pid, waited_ns);
  reported_pid_ = loader.pid;
  next_report_ns_ = waited_ns + kWaitReportS * kNsPerS;
}

Error Opening::stuck(const LoaderState& loader) const {
  const bool known = loader.pid != 0 && !loader.published;
  const std::string who = known ? format("engine {}", loader.pid) : "another engine";
  const std::string what = known ? format("end it (kill -9 {})", loader.pid) : "end it";
  return failure(ErrorCode::kIo,
                 format("{} is {} it and has made no progress for {} s (--shared-arena-timeout-s); if it hangs, {} and "
                        "start again",
                        who, loader.published ? "opening" : "loading", spec_.timeout_s, what));
}

Result<std::vector<std::byte>> Opening::read_header(size_t bytes) const {
  std::vector<std::byte> header(bytes);
  ASSIGN_OR_RETURN(const size_t n, file_->read(0, header));
  header.resize(n);
  return header;
}

Seen Opening::inspect() {
  const Result<SharedFile::Size> size = file_->size();
  if (!size.ok()) return fail(size.error());
  const Result<std::vector<std::byte>> header = read_header(size->bytes == kHeaderBytes ? kHeaderBytes : kHeaderRead);
  if (!header.ok()) return fail(header.error());
  size_ = *size;
  kind_ = kind_of(*header, size_, identity_);
  switch (kind_) {
    case Kind::kPublished:
      checksum_ = checksum_of(*header);
      return Seen::kPublished;
    case Kind::kUnfinished:
      return Seen::kUnfinished;
    case Kind::kNoArena:
      return fail(failure(ErrorCode::kBadInput, format("it {}; name another file, or remove it", kind_text(kind_))));
    default:
      return Seen::kForeign;
  }
}

Seen Opening::claim() {
  const Seen seen = lock(kUserByte, SharedFile::Lock::kExclusive);
  if (seen != Seen::kBusy) return seen;
  return fail(failure(ErrorCode::kBadInput, format("it {}, and an engine is using it; end that engine, or name another "
                                                   "file for this model",
                                                   kind_text(kind_))),
              seen);
}

Seen Opening::remove() {
  const Status status = file_->remove();
  if (status.ok()) spec_.watcher.replaced(kind_);
  return done(status);
}

Seen Opening::load() {
  // A signal that ends the process frees the memory; any other end leaves the file to the next engine.
  Result<UnfinishedFile> unfinished = UnfinishedFile::create(spec_.path);
  if (!unfinished.ok()) return fail(unfinished.error());
  unfinished_.emplace(std::move(*unfinished));
  loader_.emplace(LoadSpec{.file = *file_,
                           .identity = identity_,
                           .model = spec_.model,
                           .layout = spec_.layout,
                           .threads = spec_.threads,
                           .stats = spec_.stats});
  const Status status = loader_->load();
  if (status.ok()) checksum_ = loader_->checksum();
  return done(status);
}

Seen Opening::discard() {
  unfinished_.reset();
  return file_->is_at_path() ? done(file_->remove()) : Seen::kDone;
}

Result<Opened> Opening::attach() {
  Opened opened{.file = nullptr,
                .payload = nullptr,
                .identity = identity_,
                .size = {},
                .checksum = checksum_,
                .loaded = loader_.has_value(),
                .took_ns = 0,
                .waited_ns = waited_ns_};
  if (loader_) {
    opened.payload = loader_->take_payload();
  } else {
    ASSIGN_OR_RETURN(opened.payload, file_->map_read_only(kHeaderBytes, identity_.file_bytes - kHeaderBytes));
    const std::span<const std::byte> all = opened.payload->bytes();
    const auto n = static_cast<int64_t>((all.size() + kPopulateBytes - 1) / kPopulateBytes);
    spec_.threads.for_each(n, 1, [&](int64_t i, int64_t, int) {
      const size_t at = static_cast<size_t>(i) * kPopulateBytes;
      populate_for_reading(all.subspan(at, std::min(kPopulateBytes, all.size() - at)));
    });
  }
  opened.size = loader_ ? loader_->published() : size_;
  loader_.reset();
  opened.file = std::make_unique<SharedFile>(std::move(*file_));
  return opened;
}

}  // namespace

Result<Opened> open_arena(const OpenSpec& spec) { return Opening(spec).run(); }

}  // namespace strata::experts::shared_arena
