// The devices that --device names, and what is said when they can't be had.
#include "engine/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::test {
namespace {

using engine::Devices;
using engine::EngineConfig;
using testing::HasSubstr;

Result<std::unique_ptr<Devices>> open(const std::string& device, const std::string& budget = "") {
  EngineConfig config;
  config.device = device;
  config.vram_budget = budget;
  config.threads = 1;
  return Devices::open(config, 64 * kMiB);
}

void expect_refused(const Result<std::unique_ptr<Devices>>& devices, ErrorCode code, const char* part) {
  ASSERT_FALSE(devices.ok()) << part;
  EXPECT_EQ(devices.error().code, code) << devices.error().message;
  EXPECT_THAT(devices.error().message, HasSubstr(part));
}

TEST(Devices, OnCpuTheHostComputes) {
  const auto devices = open("cpu").value();
  ASSERT_EQ(devices->computing().size(), 1u);
  EXPECT_EQ(devices->computing()[0], &devices->host());
  EXPECT_EQ(devices->host().budget_bytes(), 64 * kMiB);
  EXPECT_EQ(devices->host_bytes(), 0u);
  EXPECT_TRUE(devices->health().ok());
}

TEST(Devices, SimulatedOnesInTheirOrder) {
  const auto devices = open("sim:8MiB,4MiB").value();
  ASSERT_EQ(devices->computing().size(), 2u);
  EXPECT_EQ(devices->computing()[0]->name(), "sim:0");
  EXPECT_EQ(devices->computing()[1]->budget_bytes(), 4 * kMiB);
  const auto buffer = devices->computing()[1]->allocate_host(4096, device::MemoryKind::kPinned, "test").value();
  EXPECT_EQ(devices->host_bytes(), 4096u);
}

TEST(Devices, WhatCanNotBeHadIsRefusedByName) {
  expect_refused(open("sim:lots"), ErrorCode::kBadInput, "'lots'");
  expect_refused(open("cuda:x"), ErrorCode::kBadInput, "'x'");
  // Whether there is no CUDA in the build, no driver, or no such device.
  expect_refused(open("cuda:63"), ErrorCode::kUnsupported, "--device cuda:63: ");
}

TEST(Devices, AGpuIsNamedTwiceOnlyWhereItsMemoryIsSharedOut) {
  expect_refused(open("cuda:0,1,0"), ErrorCode::kBadInput, "--device cuda:0,1,0: cuda:0 is named more than once");
  const std::vector<engine::NamedGpu> halves = engine::named_gpus("cuda:7,7", "8,12").value();
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[0].ordinal, 7);
  EXPECT_EQ(halves[0].limit_bytes, 8 * kGiB);
  EXPECT_EQ(halves[1].ordinal, 7);
  EXPECT_EQ(halves[1].limit_bytes, 12 * kGiB);
  EXPECT_EQ(engine::named_gpus("cuda:1,0", "").value()[0].limit_bytes, std::nullopt);
}

TEST(Devices, ABudgetIsForGpusAlone) {
  expect_refused(open("cpu", "8"), ErrorCode::kBadInput, "--ram-gib");
  expect_refused(open("sim:8MiB", "8"), ErrorCode::kBadInput, "--vram-budget-gib 8: --device sim:8MiB");
  expect_refused(open("cuda:0,1", "8,9,10"), ErrorCode::kBadInput, "or 2 of them");
}

TEST(DeviceLimits, OneNumberStandsForAllDevices) {
  EXPECT_EQ(engine::device_limits("", 2).value(), (std::vector<uint64_t>{UINT64_MAX, UINT64_MAX}));
  EXPECT_EQ(engine::device_limits("1.5", 2).value(), (std::vector<uint64_t>{kGiB * 3 / 2, kGiB * 3 / 2}));
  EXPECT_EQ(engine::device_limits("8,0", 2).value(), (std::vector<uint64_t>{8 * kGiB, 0}));
  for (const char* text : {"x", "1,", ",1", "-1", "1e3", "1,2,3", "99999999", "nan", "inf", "1 "}) {
    const auto refused = engine::device_limits(text, 2);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("--vram-budget-gib")) << text;
  }
}

}  // namespace
}  // namespace strata::test
