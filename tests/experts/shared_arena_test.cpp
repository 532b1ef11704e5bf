// The shared arena within one process: bytes, refusals of paths, damaged files, lost pages, the patience of a waiter.
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/mount.h>

#include "device/sim/machine.h"
#include "experts/shared_arena_rig.h"
#include "experts/support.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::Lease;
using experts::shared_arena::Kind;
using experts::shared_arena::Step;
using testing::ElementsAre;
using testing::HasSubstr;

// All parts of all experts, as the mapped files have them.
void expect_the_files_bytes(InProcess& engine) {
  Stats stats;
  const auto mapped = make_mapped_source(*engine.m.model, engine.m.layout, stats).value();
  for (int32_t l = 0; l < static_cast<int32_t>(engine.m.layout.layers().size()); l++) {
    const experts::LayerLayout& layer = engine.m.layout.layer(l);
    for (int32_t e = 0; e < layer.n_experts; e++) {
      const Lease found = *(*engine.source)->try_lease({l, e}), wanted = *mapped->try_lease({l, e});
      for (size_t i = 0; i < layer.parts.size(); i++) {
        const auto part = static_cast<int>(i);
        EXPECT_EQ(std::memcmp(found.part(part), wanted.part(part), layer.parts[i].bytes), 0) << l << " " << e;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(found.part(part)) % experts::kPartAlignment, 0u);
      }
    }
  }
}

class SharedArena : public testing::TestWithParam<std::string> {
 protected:
  SharedArena() : folder_(GetParam()) {}
  ArenaFolder folder_;
};

TEST_P(SharedArena, HoldsTheFilesBytesForWhoLoadsAndWhoAttaches) {
  for (const char* name : {"a", "c", "large"}) {
    ArenaFolder folder(GetParam());
    InProcess first(name, folder.arena(), 3);
    ASSERT_TRUE(first.ok()) << first.message();
    EXPECT_GT(first.reads(), 0);
    expect_the_files_bytes(first);
    // Opening it twice in one process works like in two.
    InProcess second(name, folder.arena(), 2);
    ASSERT_TRUE(second.ok()) << second.message();
    EXPECT_EQ(second.reads(), 0);
    expect_the_files_bytes(second);
    for (InProcess* engine : {&first, &second}) {
      EXPECT_EQ(engine->checksum(), file_checksum(name));
      EXPECT_EQ((*engine->source)->published_checksum(), file_checksum(name));
      EXPECT_TRUE((*engine->source)->health().ok());
      EXPECT_GT(engine->stats.get(Counter::kArenaLeases), 0);
    }
    EXPECT_THAT((*first.source)->report(), HasSubstr(": loaded "));
    EXPECT_THAT((*second.source)->report(), HasSubstr("another engine loaded, nothing read"));
    EXPECT_EQ(file_state(folder.arena())->bytes, experts::shared_arena_bytes(first.m.layout));
  }
}

// A device copies straight out of the mapping, and the file is none the worse for it.
TEST_P(SharedArena, IsPageLockedForWhoLoadsAndWhoAttaches) {
  const auto machine = device::sim::make_sim("sim:64MiB").value();
  device::Device& device = machine->device(0);
  InProcess first("a", folder_.arena()), second("a", folder_.arena());
  ASSERT_TRUE(first.ok() && second.ok());
  const auto stream = device.make_stream("copies");
  for (InProcess* engine : {&first, &second}) {
    experts::SharedArenaSource& source = **engine->source;
    EXPECT_EQ(source.page_lock(device, real_clock()).bytes(), engine->m.layout.total_bytes());
    const experts::ExpertLayout& layout = engine->m.layout;
    const auto last = static_cast<int32_t>(layout.layers().size()) - 1;
    const size_t bytes = layout.layer(last).parts[0].bytes;
    const auto target = device.allocate(bytes, "target").value();
    const auto back = device.allocate_host(bytes, device::MemoryKind::kPinned, "back").value();
    Lease lease = *source.try_lease({last, layout.layer(last).n_experts - 1});
    const Lease::HostPlace place = lease.host_place(0);
    ASSERT_NE(place.buffer, nullptr);
    EXPECT_EQ(place.buffer->kind(), device::MemoryKind::kPinned);
    stream->copy(*target, 0, *place.buffer, place.offset, bytes);
    lease.note_async_read(*stream);
    stream->copy(*back, 0, *target, 0, bytes);
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_EQ(std::memcmp(back->read<std::byte>(0, bytes).span().data(), lease.part(0), bytes), 0);
    EXPECT_TRUE(source.health().ok());
  }
  EXPECT_TRUE(machine->races().empty());
}

TEST_P(SharedArena, TwoThreadsAtOnceLoadOnce) {
  for (int round = 0; round < 5; round++) {
    std::filesystem::remove(folder_.arena());
    std::unique_ptr<InProcess> engines[2];
    std::thread other([&] { engines[1] = std::make_unique<InProcess>("a", folder_.arena()); });
    engines[0] = std::make_unique<InProcess>("a", folder_.arena());
    other.join();
    int n_loaded = 0;
    for (const auto& engine : engines) {
      ASSERT_TRUE(engine->ok()) << engine->message();
      n_loaded += engine->reads() > 0;
      EXPECT_EQ(engine->checksum(), file_checksum("a"));
    }
    EXPECT_EQ(n_loaded, 1);
  }
}

TEST_P(SharedArena, StepsComeInTheirOrder) {
  InProcess loads("a", folder_.arena());
  EXPECT_THAT(loads.noted.steps,
              ElementsAre(Step::kOpen, Step::kCreate, Step::kLockFill, Step::kCompare, Step::kInspect,
                          Step::kClaimToLoad, Step::kLoad, Step::kPublish, Step::kKeep, Step::kRelease,
                          Step::kAttached));
  InProcess attaches("a", folder_.arena());
  EXPECT_THAT(attaches.noted.steps, ElementsAre(Step::kOpen, Step::kLockFill, Step::kCompare, Step::kInspect,
                                                Step::kShare, Step::kCompareShared, Step::kRelease, Step::kAttached));
  EXPECT_TRUE(attaches.noted.waits.empty());
}

// A system call is told about memory that can't be written, instead of a signal.
bool is_writable(const std::byte* address) {
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const bool written = ::read(zeros, const_cast<std::byte*>(address), 1) == 1;
  ::close(zeros);
  return written;
}

TEST_P(SharedArena, EnginesCannotWrite) {
  std::byte own{1};
  EXPECT_TRUE(is_writable(&own));
  InProcess loads("a", folder_.arena());
  InProcess attaches("a", folder_.arena());
  for (InProcess* engine : {&loads, &attaches}) {
    EXPECT_FALSE(is_writable((*engine->source)->try_lease({0, 0})->part(0)));
    EXPECT_FALSE(is_writable((*engine->source)->try_lease({2, 7})->part(2)));
  }
}

TEST_P(SharedArena, AChangedHeaderIsNotBelieved) {
  // Every byte of the fields in front of those of the loader, but the magic, and of the seal. Some depend on the time
  // and may hold any value.
  const auto flipped = [](std::byte old) { return old ^ std::byte{0x5a}; };
  std::vector<uint64_t> offsets;
  for (uint64_t i = 8; i < 64; i++) offsets.push_back(i);
  for (uint64_t i = 128; i < 136; i++) offsets.push_back(i);
  for (const uint64_t offset : offsets) {
    SCOPED_TRACE(offset);
    InProcess user("a", folder_.arena());
    ASSERT_TRUE(user.ok()) << user.message();
    change_silently(folder_.arena(), offset, flipped);
    InProcess refused("a", folder_.arena());
    expect_error(refused.source, ErrorCode::kBadInput, {"an engine is using it"});
    user.source = Error{};
    InProcess next("a", folder_.arena());
    ASSERT_TRUE(next.ok()) << next.message();
    EXPECT_GT(next.reads(), 0);
    EXPECT_EQ(next.noted.replacements.size(), 1u);
    EXPECT_EQ(next.checksum(), file_checksum("a"));
  }
}

TEST_P(SharedArena, AFileOfAnotherLengthOrWithHolesIsNotBelieved) {
  InProcess("a", folder_.arena());
  const uint64_t bytes = file_state(folder_.arena())->bytes;
  for (const bool filled_up : {false, true}) {
    for (const uint64_t length : {bytes - kSharedPage, bytes + kSharedPage, kSharedPage}) {
      std::filesystem::resize_file(folder_.arena(), length);
      if (filled_up) std::filesystem::resize_file(folder_.arena(), bytes);
      InProcess engine("a", folder_.arena());
      ASSERT_TRUE(engine.ok()) << engine.message();
      // hugetlbfs does not note the time of what changes nothing in the end.
      const bool same_in_the_end = filled_up && length > bytes;
      EXPECT_TRUE(same_in_the_end || engine.reads() > 0);
      EXPECT_EQ(engine.checksum(), file_checksum("a"));
    }
  }
}

TEST_P(SharedArena, ACutFileEndsInAnErrorNotInASignal) {
  InProcess loader("a", folder_.arena());
  InProcess reader("a", folder_.arena());
  ASSERT_TRUE(loader.ok() && reader.ok());
  std::filesystem::resize_file(folder_.arena(), kSharedPage);
  for (InProcess* engine : {&loader, &reader}) {
    const Lease lease = *(*engine->source)->try_lease({2, 5});
    const std::byte lost = *static_cast<const volatile std::byte*>(lease.part(0));
    EXPECT_EQ(lost, std::byte{0});
    expect_error((*engine->source)->health(), ErrorCode::kIo, {folder_.arena().c_str(), "has changed", "start again"});
    const ExpertKey keys[] = {{0, 0}};
    Lease leases[1];
    EXPECT_FALSE((*engine->source)->fetch(keys, leases).ok());
  }
}

// Pages that were cut off and came back are zeros, and no signal tells: the time of the change does. A reader that has
// touched them all has even given them memory again.
TEST_P(SharedArena, AFileThatIsCutAndFilledUpIsNotBelieved) {
  if (GetParam() != "/dev/shm") GTEST_SKIP() << "hugetlbfs does not note when a file is cut by its name";
  InProcess user("a", folder_.arena());
  ASSERT_TRUE(user.ok()) << user.message();
  const uint64_t bytes = file_state(folder_.arena())->bytes;
  auto file = *SharedFile::open(folder_.arena()).value();
  std::filesystem::resize_file(folder_.arena(), kSharedPage);
  ASSERT_TRUE(file.allocate(0, bytes).ok());
  expect_error((*user.source)->health(), ErrorCode::kIo, {"has changed"});
  InProcess refused("a", folder_.arena());
  expect_error(refused.source, ErrorCode::kBadInput, {"another program has changed", "an engine is using it"});
  user.source = Error{};
  InProcess next("a", folder_.arena());
  ASSERT_TRUE(next.ok()) << next.message();
  EXPECT_EQ(next.checksum(), file_checksum("a"));
}

TEST_P(SharedArena, LeavesFilesOfOthersAlone) {
  const std::string text(300, 'x');
  for (const uint64_t length : {uint64_t{5}, uint64_t{300}}) {
    if (GetParam() != "/dev/shm") GTEST_SKIP() << "hugetlbfs takes no writes";
    {
      std::ofstream(folder_.arena(), std::ios::binary) << text.substr(0, length);
    }
    InProcess engine("a", folder_.arena());
    expect_error(engine.source, ErrorCode::kBadInput, {"is no arena of experts", "name another file"});
    EXPECT_EQ(file_state(folder_.arena())->bytes, length);
  }
}

// Zeros in front prove nothing; only a whole page of nothing else is what a loader leaves that ended too soon.
TEST_P(SharedArena, FilesThatBeginWithZerosAreLeftAloneToo) {
  if (GetParam() != "/dev/shm") GTEST_SKIP() << "hugetlbfs takes no writes";
  for (const uint64_t length : {uint64_t{1}, uint64_t{4096}, kSharedPage, 2 * kSharedPage}) {
    for (const bool written : {false, true}) {
      SCOPED_TRACE(testing::Message() << length << " bytes, written " << written);
      std::filesystem::remove(folder_.arena());
      std::string bytes(length, '\0');
      if (written) bytes.back() = 'x';
      std::ofstream(folder_.arena(), std::ios::binary) << bytes;
      InProcess engine("a", folder_.arena());
      if (length == kSharedPage && !written) {
        EXPECT_TRUE(engine.ok()) << engine.message();
        continue;
      }
      expect_error(engine.source, ErrorCode::kBadInput, {"is no arena of experts"});
      EXPECT_EQ(file_state(folder_.arena())->bytes, length);
    }
  }
}

// Time is the test's, so that ten minutes pass at once.
TEST_P(SharedArena, AWaiterLosesItsPatience) {
  auto holder = *SharedFile::create(folder_.arena()).value();
  ASSERT_TRUE(holder.try_lock(experts::shared_arena::kFillByte, SharedFile::Lock::kExclusive).value());
  ManualClock clock;
  InProcess engine("a", folder_.arena(), 1, clock, 70);
  expect_error(engine.source, ErrorCode::kIo, {"another engine is loading it", "no progress for 70 s"});
  std::vector<int64_t> seconds;
  for (const auto& wait : engine.noted.waits) seconds.push_back(wait.waited_ns / 1'000'000'000);
  EXPECT_THAT(seconds, ElementsAre(0, 30, 60));
}

// A loader that is slow, but at work, is waited for much longer.
TEST_P(SharedArena, ALoaderThatMakesProgressIsWaitedFor) {
  class Working final : public Clock {
   public:
    explicit Working(const std::string& path)
        : file_(*SharedFile::create(path).value()) {
      EXPECT_TRUE(file_.try_lock(experts::shared_arena::kFillByte, SharedFile::Lock::kExclusive).value());
      EXPECT_TRUE(file_.allocate(0, kSharedPage).ok());
      page_ = file_.map_writable(0, kSharedPage).value();
      header_.emplace(page_->writable_bytes(), experts::shared_arena::Identity{}, 4711);
    }
    int64_t now_ns() override { return now_ns_; }
    void sleep_ns(int64_t) override {
      now_ns_ += 1'000'000'000;
      if (++n_sleeps_ % 60 == 0 && n_sleeps_ <= 600) header_->add_progress(1);
    }
    int64_t n_sleeps() const { return n_sleeps_; }

   private:
    SharedFile file_;
    std::unique_ptr<WritableMapping> page_;
    std::optional<experts::shared_arena::HeaderWriter> header_;
    int64_t now_ns_ = 0, n_sleeps_ = 0;
  };
  Working clock(folder_.arena());
  InProcess engine("a", folder_.arena(), 1, clock, 70);
  expect_error(engine.source, ErrorCode::kIo, {"engine 4711 is loading it", "kill -9 4711"});
  EXPECT_NEAR(static_cast<double>(clock.n_sleeps()), 670, 2);
}

INSTANTIATE_TEST_SUITE_P(All, SharedArena, testing::ValuesIn(arena_folders()), [](const auto& row) {
  return row.index == 0 ? "tmpfs" : "hugetlbfs";
});

TEST(SharedArenaPaths, WhatCannotBeSharedIsRefused) {
  const ArenaFolder folder;
  const TempDir drive;
  const std::string base = folder.path();
  std::filesystem::create_directory(base + "/folder");
  std::filesystem::create_symlink(base + "/arena", base + "/link");
  ASSERT_EQ(mkfifo((base + "/pipe").c_str(), 0600), 0);
  { std::ofstream(drive.file("file")) << "x"; }
  const struct {
    std::string path;
    ErrorCode code;
    const char* reason;
  } rows[] = {{base + "/folder", ErrorCode::kBadInput, "it is a directory"},
              {base + "/link", ErrorCode::kBadInput, "it is a symbolic link"},
              {base + "/pipe", ErrorCode::kBadInput, "it is not a regular file"},
              {"/dev/null", ErrorCode::kBadInput, "it is not a regular file"},
              {base + "/none/arena", ErrorCode::kNotFound, "there is no folder"},
              {drive.file("file"), ErrorCode::kBadInput, "it is on a drive"},
              {drive.file("new"), ErrorCode::kBadInput, "it is on a drive"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.path);
    InProcess engine("a", row.path);
    expect_error(engine.source, row.code, {"shared arena", row.path.c_str(), row.reason});
    EXPECT_EQ(engine.reads(), 0);
  }
  EXPECT_FALSE(std::filesystem::exists(drive.file("new")));
  EXPECT_FALSE(std::filesystem::exists(folder.arena())) << "a link leads nowhere";
}

TEST(SharedArenaPaths, AFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const ArenaFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  ASSERT_TRUE(InProcess("a", folder.arena()).ok());
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(kNobody), 0);
  InProcess engine("a", folder.arena());
  InProcess creator("a", folder.path() + "/new");
  ASSERT_EQ(::seteuid(0), 0);
  expect_error(engine.source, ErrorCode::kBadInput, {"this user may not read and write it (Permission denied)"});
  expect_error(creator.source, ErrorCode::kBadInput, {"this user may not read and write it (Permission denied)"});
}

// Mounts a tmpfs of its own, which takes privileges.
class SmallTmpfs {
 public:
  explicit SmallTmpfs(const std::string& where, const std::string& size) : where_(where) {
    mounted_ = ::mount("tmpfs", where.c_str(), "tmpfs", MS_NODEV | MS_NOSUID, ("size=" + size).c_str()) == 0;
  }
  ~SmallTmpfs() {
    if (mounted_) ::umount2(where_.c_str(), MNT_DETACH);
  }
  SmallTmpfs(const SmallTmpfs&) = delete;
  SmallTmpfs& operator=(const SmallTmpfs&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::string where_;
  bool mounted_;
};

TEST(SharedArenaPaths, ATmpfsThatIsTooSmallIsAnErrorWithBothSizes) {
  for (const uint64_t mib : {1, 3}) {
    const TempDir folder;
    const SmallTmpfs small(folder.path(), format("{}m", mib));
    if (!small.mounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted";
    const uint64_t needed = experts::shared_arena_bytes(ArenaModels::get("a").layout);
    ASSERT_GT(needed, mib * kMiB);
    InProcess engine("a", folder.file("arena"));
    expect_error(engine.source, ErrorCode::kNoMemory,
                 {format("({} bytes) are needed", needed).c_str(), format("({} bytes) left", mib * kMiB).c_str(),
                  "remount,size="});
    EXPECT_EQ(engine.reads(), 0);
    EXPECT_FALSE(std::filesystem::exists(folder.file("arena")));
  }
}

}  // namespace
}  // namespace strata::test
