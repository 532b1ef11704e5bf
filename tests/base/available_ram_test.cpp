// Fake /proc and /sys/fs/cgroup trees. The machine has 1000 KiB available unless a test says otherwise.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/topology.h"
#include "support/golden.h"

namespace strata {
namespace {

constexpr uint64_t kMachine = 1000 * 1024;

class AvailableRamTest : public testing::Test {
 protected:
  AvailableRamTest() {
    add("proc/meminfo", "MemTotal:        9999 kB\nMemFree:  1 kB\nMemAvailable:    1000 kB\nBuffers: 7 kB\n");
    add("proc/self/cgroup", "0::/\n");
  }
  void add(const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.file(path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  // A version 2 group.
  void add_v2(const std::string& group, const std::string& limit, const std::string& usage, const std::string& stat) {
    add("cgroup" + group + "/memory.max", limit + "\n");
    add("cgroup" + group + "/memory.current", usage + "\n");
    add("cgroup" + group + "/memory.stat", stat);
  }
  void add_v1(const std::string& group, const std::string& limit, const std::string& usage, const std::string& stat) {
    add("cgroup/memory" + group + "/memory.limit_in_bytes", limit + "\n");
    add("cgroup/memory" + group + "/memory.usage_in_bytes", usage + "\n");
    add("cgroup/memory" + group + "/memory.stat", stat);
  }
  Result<uint64_t> available() const { return available_ram_bytes(dir_.file("proc"), dir_.file("cgroup")); }
  Result<uint64_t> free() const { return free_ram_bytes(dir_.file("proc"), dir_.file("cgroup")); }

  test::TempDir dir_;
};

TEST_F(AvailableRamTest, ThisMachineHasSome) {
  const auto bytes = available_ram_bytes();
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  EXPECT_GT(*bytes, 0u);
}

TEST_F(AvailableRamTest, WithoutGroupsTheMachineDecides) {
  EXPECT_EQ(*available(), kMachine);
  std::filesystem::remove(dir_.file("proc/self/cgroup"));
  EXPECT_EQ(*available(), kMachine);
}

TEST_F(AvailableRamTest, AnUnreadableMeminfoIsAnErrorAndNotZero) {
  for (const char* text : {"", "MemTotal: 5 kB\n", "MemAvailable: x kB\n", "MemAvailable: kB\n", "MemAvailable: 5\n",
                           "MemAvailable: -5 kB\n", "MemAvailable: 18446744073709551615 kB\n"}) {
    add("proc/meminfo", text);
    ASSERT_FALSE(available().ok()) << text;
    EXPECT_EQ(available().error().code, ErrorCode::kIo);
    EXPECT_NE(available().error().message.find("meminfo"), std::string::npos);
  }
  std::filesystem::remove(dir_.file("proc/meminfo"));
  EXPECT_FALSE(available().ok());
}

TEST_F(AvailableRamTest, CleanFileCacheOfAVersion2GroupCountsAsRoom) {
  add("proc/self/cgroup", "0::/g\n");
  add_v2("/g", "56", "40", "anon 5\ninactive_file 32\nactive_file 3\n");
  EXPECT_EQ(*available(), 48u);
  add_v2("/g", "56", "40", "inactive_file 32\nfile_dirty 4\nfile_writeback 2\n");
  EXPECT_EQ(*available(), 42u);
  add_v2("/g", "56", "40", "inactive_file 5\nfile_dirty 4\nfile_writeback 2\n");  // nothing clean is left
  EXPECT_EQ(*available(), 16u);
  add_v2("/g", "56", "40", "workingset_inactive_file 32\ninactive_files 32\n");  // other names
  EXPECT_EQ(*available(), 16u);
}

TEST_F(AvailableRamTest, CleanFileCacheOfAVersion1GroupCountsAsRoom) {
  add("proc/self/cgroup", "9:name=systemd:/s\n4:cpu,memory:/g\n0::/\n");
  add_v1("/g", "56", "40", "inactive_file 1\ntotal_inactive_file 32\n");
  EXPECT_EQ(*available(), 48u);
  add_v1("/g", "56", "40", "total_inactive_file 32\ntotal_dirty 4\ntotal_writeback 2\n");
  EXPECT_EQ(*available(), 42u);
  add_v1("/g", "9223372036854771712", "40", "");  // how version 1 writes "no limit"
  EXPECT_EQ(*available(), kMachine);
}

TEST_F(AvailableRamTest, TheTightestGroupOnTheWayUpDecides) {
  add("proc/self/cgroup", "0::/a/b/c\n");
  add_v2("/a/b/c", "max", "50", "");
  add_v2("/a/b", "900", "100", "");
  add_v2("/a", "700", "100", "");
  EXPECT_EQ(*available(), 600u);
  add_v2("/a/b/c", "200", "50", "");
  EXPECT_EQ(*available(), 150u);
  add_v2("", "100", "50", "");  // a container sees its own group as the root
  EXPECT_EQ(*available(), 50u);
}

TEST_F(AvailableRamTest, BothVersionsTighten) {
  add("proc/self/cgroup", "4:memory:/one\n0::/two\n");
  add_v1("/one", "700", "100", "");
  EXPECT_EQ(*available(), 600u);
  add_v2("/two", "300", "100", "");
  EXPECT_EQ(*available(), 200u);
  add_v2("/unified/two", "150", "100", "");  // where mixed systems mount version 2
  EXPECT_EQ(*available(), 50u);
}

TEST_F(AvailableRamTest, TheThrottlingLimitCountsToo) {
  add("proc/self/cgroup", "0::/g\n");
  add_v2("/g", "max", "40", "");
  add("cgroup/g/memory.high", "100\n");
  EXPECT_EQ(*available(), 60u);
}

TEST_F(AvailableRamTest, APathOfAnotherNamespaceLeavesTheRoot) {
  add("proc/self/cgroup", "0::/../../other\n4:memory:/docker/0123\n");
  add_v2("", "500", "100", "");
  EXPECT_EQ(*available(), 400u);
  add_v1("", "300", "100", "");
  EXPECT_EQ(*available(), 200u);
}

TEST_F(AvailableRamTest, UsageAboveTheLimitIsNoRoom) {
  add("proc/self/cgroup", "0::/g\n");
  add_v2("/g", "40", "56", "");
  EXPECT_EQ(*available(), 0u);
  add_v2("/g", "40", "56", "inactive_file 99\n");  // cache beyond the usage
  EXPECT_EQ(*available(), 40u);
}

TEST_F(AvailableRamTest, WhatCannotBeUnderstoodIsNoRoom) {
  add("proc/self/cgroup", "0::/g\n");
  for (const char* limit : {"", "lots", "-1", "12x", " 12", "99999999999999999999999", "maximum"}) {
    add_v2("/g", limit, "1", "");
    EXPECT_EQ(*available(), 0u) << limit;
  }
  add_v2("/g", "100", "much", "");
  EXPECT_EQ(*available(), 0u);
  for (const char* stat : {"inactive_file many\n", "inactive_file 8\nfile_dirty few\n",
                           "inactive_file 8\nfile_writeback -1\n"}) {
    add_v2("/g", "100", "10", stat);  // no cache is known to be clean
    EXPECT_EQ(*available(), 90u) << stat;
  }
  std::filesystem::remove(dir_.file("cgroup/g/memory.current"));
  EXPECT_EQ(*available(), 0u);
  std::filesystem::remove(dir_.file("cgroup/g/memory.max"));
  std::filesystem::create_directory(dir_.file("cgroup/g/memory.max"));  // there, and unreadable
  EXPECT_EQ(*available(), 0u);
}

TEST_F(AvailableRamTest, FileCacheIsNotFree) {
  EXPECT_EQ(*free(), 1024u);
  add("proc/meminfo", "MemFree: 900 kB\nMemAvailable: 1000 kB\n");
  EXPECT_EQ(*free(), 900u * 1024);
  add("proc/self/cgroup", "4:memory:/one\n0::/two\n");
  add_v2("/two", "56", "40", "inactive_file 32\n");
  EXPECT_EQ(*free(), 16u);
  EXPECT_EQ(*available(), 48u);
  add_v1("/one", "50", "45", "total_inactive_file 32\n");
  EXPECT_EQ(*free(), 5u);
  add("proc/meminfo", "MemAvailable: 1000 kB\n");
  ASSERT_FALSE(free().ok());
  EXPECT_NE(free().error().message.find("MemFree"), std::string::npos);
  EXPECT_TRUE(available().ok());
}

TEST_F(AvailableRamTest, MalformedMembershipLinesAreNoGroups) {
  add("proc/self/cgroup", "\nnonsense\n4:memory\n:::\n7:memoryless,nomemory:/g\n");
  add_v1("/g", "5", "1", "");
  EXPECT_EQ(*available(), kMachine);
}

}  // namespace
}  // namespace strata
