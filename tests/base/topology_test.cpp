#include "base/topology.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/golden.h"

namespace strata {
namespace {

TEST(CpuListTest, ListsAndRangesKeepTheirOrder) {
  EXPECT_EQ(*parse_cpu_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(*parse_cpu_list("5"), (std::vector<int>{5}));
  EXPECT_EQ(*parse_cpu_list("7,2-2,0"), (std::vector<int>{7, 2, 0}));
  EXPECT_EQ(parse_cpu_list("0-4095")->size(), 4096u);
}

TEST(CpuListTest, BadPiecesAreNamed) {
  const struct {
    const char* text;
    const char* piece;
  } cases[] = {
      {"", "''"},       {"0,", "''"},        {",1", "''"},       {"1,,2", "''"},     {"a", "'a'"},
      {"1,x-3", "'x-3'"}, {"3-1", "'3-1'"},  {"-1", "'-1'"},     {"1-", "'1-'"},     {"1-2-3", "'1-2-3'"},
      {" 1", "' 1'"},   {"1 ", "'1 '"},      {"+1", "'+1'"},     {"1.5", "'1.5'"},   {"0x1", "'0x1'"},
      {"1--2", "'1--2'"}, {"0-3,2", "'2'"},  {"5,4-6", "'4-6'"}, {"4096", "'4096'"}, {"0-4096", "'0-4096'"},
      {"0-4294967296", "'0-4294967296'"},    {"99999999999999999999", "'99999999999999999999'"},
  };
  for (const auto& c : cases) {
    const auto cpus = parse_cpu_list(c.text);
    ASSERT_FALSE(cpus.ok()) << c.text;
    EXPECT_EQ(cpus.error().code, ErrorCode::kBadInput);
    EXPECT_TRUE(cpus.error().message.starts_with(c.piece)) << cpus.error().message;
  }
}

class TopologyTest : public testing::Test {
 protected:
  void add_siblings(int cpu, const std::string& list, const std::string& name = "core_cpus_list") {
    const std::string folder = dir_.file("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology");
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + name) << list << "\n";
  }

  test::TempDir dir_;
  const std::vector<int> cpus_ = read_topology().cpus;
};

TEST_F(TopologyTest, TheMachineHasCoresInAscendingOrder) {
  const Topology topology = read_topology();
  ASSERT_FALSE(topology.cpus.empty());
  ASSERT_FALSE(topology.physical_cores.empty());
  EXPECT_TRUE(std::is_sorted(topology.cpus.begin(), topology.cpus.end()));
  EXPECT_TRUE(std::includes(topology.cpus.begin(), topology.cpus.end(), topology.physical_cores.begin(),
                            topology.physical_cores.end()));
}

TEST_F(TopologyTest, WithoutSysEveryCpuIsACore) {
  EXPECT_EQ(read_topology(dir_.file("none")).physical_cores, cpus_);
}

TEST_F(TopologyTest, SiblingsAreOneCoreUnderEitherFileName) {
  std::string all;
  for (const int cpu : cpus_) all += (all.empty() ? "" : ",") + std::to_string(cpu);
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    std::filesystem::remove_all(dir_.file("devices"));
    for (const int cpu : cpus_) add_siblings(cpu, all, name);
    EXPECT_EQ(read_topology(dir_.path()).physical_cores, (std::vector<int>{cpus_.front()}));
  }
}

TEST_F(TopologyTest, ASiblingOutsideTheAffinityMaskDoesNotHideTheCore) {
  for (const int cpu : cpus_) add_siblings(cpu, std::to_string(cpu) + "," + std::to_string(cpu + 2000));
  EXPECT_EQ(read_topology(dir_.path()).physical_cores, cpus_);
}

TEST_F(TopologyTest, AMalformedSiblingListCountsAsACoreOfItsOwn) {
  for (const int cpu : cpus_) add_siblings(cpu, "0-");
  EXPECT_EQ(read_topology(dir_.path()).physical_cores, cpus_);
}

}  // namespace
}  // namespace strata
