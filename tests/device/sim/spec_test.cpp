// The text that describes simulated devices: what it means, and what is said about each way to get it wrong.
#include "device/sim/spec.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

using device::sim::parse_sim_spec;
using device::sim::SimSpec;

TEST(SimSpec, AllParts) {
  const auto spec = parse_sim_spec(
      "sim:64MiB,32MiB/link=2GiBps,64MiBps/peer=4GiBps/compute=50GFLOPs/mem=10GiBps/host=5GiBps/drive=1GiBps/seed=7");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ASSERT_EQ(spec->devices.size(), 2u);
  EXPECT_EQ(spec->devices[0].budget_bytes, 64 * kMiB);
  EXPECT_EQ(spec->devices[1].budget_bytes, 32 * kMiB);
  EXPECT_EQ(spec->devices[0].link_bytes_per_s, 2 * kGiB);
  EXPECT_EQ(spec->devices[1].link_bytes_per_s, 64 * kMiB);
  EXPECT_EQ(spec->peer_bytes_per_s, 4 * kGiB);
  for (const auto& device : spec->devices) {
    EXPECT_EQ(device.compute_flops_per_s, 50'000'000'000u);
    EXPECT_EQ(device.mem_bytes_per_s, 10 * kGiB);
  }
  EXPECT_EQ(spec->host_bytes_per_s, 5 * kGiB);
  EXPECT_EQ(spec->drive_bytes_per_s, 1 * kGiB);
  EXPECT_EQ(spec->seed, 7u);
  EXPECT_TRUE(spec->check);
  EXPECT_EQ(spec->fail_at, 0u);
  EXPECT_GE(spec->lock_bytes, kGiB);
}

TEST(SimSpec, DevicesAlikeAndOthers) {
  const auto spec = parse_sim_spec("sim:2x64MiB,1GiB,3x7KiB/check=off/fail=12");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  std::vector<uint64_t> budgets;
  for (const auto& device : spec->devices) budgets.push_back(device.budget_bytes);
  EXPECT_EQ(budgets, (std::vector<uint64_t>{64 * kMiB, 64 * kMiB, kGiB, 7 * kKiB, 7 * kKiB, 7 * kKiB}));
  EXPECT_FALSE(spec->check);
  EXPECT_EQ(spec->fail_at, 12u);
}

TEST(SimSpec, DevicesWithoutALinkBetweenThem) {
  const auto spec = parse_sim_spec("sim:2x64MiB/peer=off");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->peer_bytes_per_s, 0u);
}

TEST(SimSpec, WhatCanBePageLocked) {
  EXPECT_EQ(parse_sim_spec("sim:64MiB/lock=3MiB")->lock_bytes, 3 * kMiB);
  EXPECT_EQ(parse_sim_spec("sim:64MiB/lock=off")->lock_bytes, 0u);
}

TEST(SimSpec, TheLargestNumbers) {
  EXPECT_TRUE(parse_sim_spec("sim:1TiB/link=1073741824GiBps/seed=18446744073709551615").ok());
  EXPECT_TRUE(parse_sim_spec("sim:16x1B").ok());
}

struct Bad {
  const char* text;
  const char* says;  // the bad part, in quotes, and more
};

class BadSimSpec : public testing::TestWithParam<Bad> {};

TEST_P(BadSimSpec, NamesTheBadPart) {
  const auto spec = parse_sim_spec(GetParam().text);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, ErrorCode::kBadInput);
  EXPECT_NE(spec.error().message.find(GetParam().says), std::string::npos) << spec.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    SimSpec, BadSimSpec,
    testing::Values(Bad{"cuda:0", "'cuda:0' has to start with sim:"}, Bad{"sim:", "'' has to be a memory size"},
                    Bad{"sim:64MiB,", "'' has to be a memory size"}, Bad{"sim:64", "'64' has to be"},
                    Bad{"sim:64MB", "'64MB' has to be"}, Bad{"sim:-1MiB", "'-1MiB' has to be"},
                    Bad{"sim:0MiB", "'0MiB' has to be"}, Bad{"sim:1.5GiB", "'1.5GiB' has to be"},
                    Bad{"sim:2TiB", "'2TiB' has to be"}, Bad{"sim:99999999999999999999B", "has to be"},
                    Bad{"sim:18446744073709551615TiB", "has to be"}, Bad{"sim:0x64MiB", "'0x64MiB' has to be"},
                    Bad{"sim:x64MiB", "'x64MiB' has to be"}, Bad{"sim:2x", "'2x' has to be"},
                    Bad{"sim:17x1MiB", "'17x1MiB' makes more than 16 devices"},
                    Bad{"sim:16x1MiB,1MiB", "'1MiB' makes more than 16 devices"},
                    Bad{"sim:18446744073709551615x1MiB", "makes more than 16 devices"},
                    Bad{"sim:1MiB/", "'' has to be key=value"}, Bad{"sim:1MiB/seed", "'seed' has to be key=value"},
                    Bad{"sim:1MiB/speed=1", "'speed=1' is no part of it"},
                    Bad{"sim:1MiB/link=", "'link=' has to be a rate like 2GiBps"},
                    Bad{"sim:1MiB/link=2GiB", "'link=2GiB' has to be a rate"},
                    Bad{"sim:1MiB/link=0Bps", "'link=0Bps' has to be a rate"},
                    Bad{"sim:1MiB/link=1073741825GiBps", "has to be a rate"},
                    Bad{"sim:1MiB/link=1GiBps,2GiBps", "has 2 rates for 1 devices"},
                    Bad{"sim:3x1MiB/mem=1GiBps,2GiBps", "has 2 rates for 3 devices"},
                    Bad{"sim:1MiB/compute=5GiBps", "'compute=5GiBps' has to be a rate like 50GFLOPs"},
                    Bad{"sim:2x1MiB/peer=on", "'peer=on' has to be a rate"},
                    Bad{"sim:2x1MiB/peer=1GiBps,1GiBps", "'peer=1GiBps,1GiBps' has to be a rate"},
                    Bad{"sim:1MiB/drive=fast", "'drive=fast' has to be a rate"},
                    Bad{"sim:1MiB/host=1", "'host=1' has to be a rate"},
                    Bad{"sim:1MiB/seed=18446744073709551616", "has to be a whole number below 2^64"},
                    Bad{"sim:1MiB/seed=-1", "'seed=-1' has to be a whole number"},
                    Bad{"sim:1MiB/fail=first", "'fail=first' has to be a whole number"},
                    Bad{"sim:1MiB/check=1", "'check=1' has to be check=on or check=off"},
                    Bad{"sim:1MiB/seed=1/seed=2", "'seed=2' is given twice"}));

}  // namespace
}  // namespace strata::test
