// Files in memory: who gets their locks, what their mappings survive, and what is refused.
#include "base/shared_file.h"

#include <csignal>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strata {
namespace {

using Lock = SharedFile::Lock;

class SharedFileTest : public ::testing::Test {
 protected:
  SharedFileTest() {
    if (mkdtemp(folder_) == nullptr) std::abort();
  }
  ~SharedFileTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return std::string(folder_) + "/f"; }
  SharedFile make() { return *SharedFile::create(path()).value(); }
  SharedFile open() { return *SharedFile::open(path()).value(); }

 private:
  char folder_[40] = "/dev/shm/strata-test-XXXXXX";
};

TEST_F(SharedFileTest, IsMadeOnceAndOpenedByAll) {
  EXPECT_FALSE(SharedFile::open(path()).value().has_value());
  EXPECT_TRUE(SharedFile::create(path()).value().has_value());
  EXPECT_FALSE(SharedFile::create(path()).value().has_value());
  EXPECT_TRUE(SharedFile::open(path()).value().has_value());
}

TEST_F(SharedFileTest, LocksExcludeWithinAProcess) {
  SharedFile a = make(), b = open();
  EXPECT_TRUE(a.try_lock(0, Lock::kExclusive).value());
  EXPECT_FALSE(b.try_lock(0, Lock::kExclusive).value());
  EXPECT_FALSE(b.try_lock(0, Lock::kShared).value());
  EXPECT_TRUE(b.try_lock(1, Lock::kExclusive).value()) << "each byte is a lock of its own";
  EXPECT_TRUE(a.try_lock(0, Lock::kShared).value()) << "one's own can be changed";
  EXPECT_TRUE(b.try_lock(0, Lock::kShared).value());
  EXPECT_FALSE(a.try_lock(0, Lock::kExclusive).value());
  EXPECT_TRUE(b.unlock(0).ok());
  EXPECT_TRUE(a.try_lock(0, Lock::kExclusive).value());
}

TEST_F(SharedFileTest, LocksGoWithTheirHolder) {
  SharedFile a = make();
  {
    SharedFile b = open();
    EXPECT_TRUE(b.try_lock(0, Lock::kExclusive).value());
    SharedFile moved = std::move(b);
    EXPECT_FALSE(a.try_lock(0, Lock::kShared).value());
  }
  EXPECT_TRUE(a.try_lock(0, Lock::kExclusive).value());
  EXPECT_TRUE(a.unlock(0).ok());

  int locked[2], end[2];
  ASSERT_EQ(::pipe(locked), 0);
  ASSERT_EQ(::pipe(end), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    SharedFile own = open();
    const bool had = own.try_lock(0, Lock::kExclusive).value();
    char byte = had ? '1' : '0';
    if (::write(locked[1], &byte, 1) != 1 || ::read(end[0], &byte, 1) != 1) ::_exit(1);
    ::raise(SIGKILL);
  }
  char byte = 0;
  ASSERT_EQ(::read(locked[0], &byte, 1), 1);
  EXPECT_EQ(byte, '1');
  EXPECT_FALSE(a.try_lock(0, Lock::kShared).value());
  ASSERT_EQ(::write(end[1], &byte, 1), 1);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(a.try_lock(0, Lock::kExclusive).value());
  for (const int fd : {locked[0], locked[1], end[0], end[1]}) ::close(fd);
}

TEST_F(SharedFileTest, KnowsWhetherItIsTheOneAtThePath) {
  SharedFile a = make();
  EXPECT_TRUE(a.is_at_path());
  EXPECT_TRUE(a.remove().ok());
  EXPECT_FALSE(a.is_at_path());
  const SharedFile b = make();
  EXPECT_FALSE(a.is_at_path());
  EXPECT_TRUE(b.is_at_path());
  EXPECT_TRUE(a.remove().ok());
  EXPECT_TRUE(a.remove().ok()) << "what is gone need not be removed";
}

TEST_F(SharedFileTest, MappingsShareMemoryAtLargePageBorders) {
  SharedFile file = make();
  ASSERT_TRUE(file.allocate(0, 3 * kSharedPage).ok());
  EXPECT_EQ(file.size().value().bytes, 3 * kSharedPage);
  EXPECT_GE(file.size().value().allocated, 3 * kSharedPage);
  EXPECT_EQ(own_memory_bytes(path()), file.size().value().allocated);
  EXPECT_EQ(own_memory_bytes(path() + "/none"), 0u);
  const auto writer = file.map_writable(kSharedPage, 2 * kSharedPage).value();
  const auto reader = open().map_read_only(kSharedPage, 2 * kSharedPage).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(writer->bytes().data()) % kSharedPage, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(reader->bytes().data()) % kSharedPage, 0u);
  populate_for_writing(writer->writable_bytes());
  std::memset(writer->writable_bytes().data() + 5, 7, 1000);
  populate_for_reading(reader->bytes());
  EXPECT_EQ(std::memcmp(reader->bytes().data(), writer->bytes().data(), 2 * kSharedPage), 0);
  std::byte read[8];
  EXPECT_EQ(file.read(kSharedPage + 4, read).value(), 8u);
  EXPECT_EQ(read[0], std::byte{0});
  EXPECT_EQ(read[1], std::byte{7});
  EXPECT_EQ(file.read(3 * kSharedPage - 3, read).value(), 3u);
  EXPECT_LE(bytes_on_large_pages(reader->bytes()), 2 * kSharedPage);
  EXPECT_TRUE(writer->make_read_only().ok());
  // A system call is told about memory that can't be written, instead of a signal.
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::read(zeros, const_cast<std::byte*>(writer->bytes().data()), 1), -1);
  ::close(zeros);
}

TEST_F(SharedFileTest, WritingToLostPagesIsNoticed) {
  SharedFile file = make();
  ASSERT_TRUE(file.allocate(0, 2 * kSharedPage).ok());
  const auto mapping = file.map_writable(0, 2 * kSharedPage).value();
  std::filesystem::resize_file(path(), kSharedPage);
  mapping->writable_bytes()[kSharedPage - 1] = std::byte{1};
  EXPECT_FALSE(mapping->failed());
  mapping->writable_bytes()[kSharedPage + 1] = std::byte{2};
  EXPECT_TRUE(mapping->failed());
  EXPECT_EQ(mapping->bytes()[kSharedPage - 1], std::byte{1});
}

}  // namespace
}  // namespace strata
