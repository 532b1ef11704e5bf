// Goal: strata plan says for any machine what of a model would lie where, from the metadata alone, and how fast that
// would be once the machine has been measured.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file_sim.h"
#include "cli/large_model.h"
#include "cli/models.h"
#include "cli/plan/model_plan.h"
#include "cli/program.h"

namespace strata::test {
namespace {

using cli::ModelPlan;
using experts::SourceKind;
using experts::Tier;
using testing::HasSubstr;

Settings settings_of(const std::vector<std::pair<Key, std::string>>& values) {
  Settings settings;
  for (const auto& [key, value] : values) EXPECT_TRUE(settings.set(key, value, "test").ok()) << value;
  return settings;
}

// A model of 55 GiB of experts.
class LargePlan : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    expert_bytes_ = write_large_model(path(), {.n_experts = 116});
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
  }
  static std::string path() { return dir_->file("large.gguf"); }
  static uint64_t expert_bytes() { return expert_bytes_; }

  static Result<ModelPlan> plan(const std::vector<std::pair<Key, std::string>>& values) {
    const auto model = gguf::Model::open(path(), real_file_system()).value();
    return cli::plan_model(*model, settings_of(values));
  }

 private:
  static TempDir* dir_;
  static uint64_t expert_bytes_;
};
TempDir* LargePlan::dir_ = nullptr;
uint64_t LargePlan::expert_bytes_ = 0;

// Nothing takes more than there is, and every expert is in one place.
void check_sums(const ModelPlan& planned, const std::vector<uint64_t>& budgets, uint64_t ram_bytes) {
  const auto& parts = planned.request.parts;
  ASSERT_EQ(parts.size(), std::max<size_t>(budgets.size(), 1));
  uint64_t ram = 0, cached = 0;
  int layer = 0;
  for (size_t i = 0; i < parts.size(); i++) {
    EXPECT_EQ(parts[i].first_layer, layer);
    layer = parts[i].last_layer;
    const experts::PartPlacement& part = planned.plan.parts[i];
    const uint64_t used = parts[i].device_bytes() + part.device_bytes();
    if (budgets.empty()) ram += used + part.cache.host;
    else EXPECT_LE(used, budgets[i]);
    if (!budgets.empty()) ram += parts[i].host_bytes + part.cache.host;
    cached += static_cast<uint64_t>(part.slots.n_slots());
  }
  EXPECT_EQ(layer, static_cast<int>(planned.request.layout.layers().size()));
  EXPECT_EQ(ram, planned.plan.needs_bytes);
  const bool arena = planned.plan.source == SourceKind::kArena;
  ram += (arena ? planned.request.layout.total_bytes() : planned.plan.resident.bytes()) + planned.plan.stage_bytes;
  EXPECT_EQ(ram, planned.plan.ram_bytes());
  EXPECT_LE(ram, ram_bytes);
  uint64_t in[3] = {};
  for (const auto& tiers : planned.plan.tiers) {
    for (const Tier tier : tiers) in[static_cast<size_t>(tier)]++;
  }
  EXPECT_EQ(in[0] + in[1] + in[2], 48u * 116);
  EXPECT_EQ(in[0], cached);
}

TEST_F(LargePlan, TheSumsFitOnFourMachines) {
  EXPECT_NEAR(static_cast<double>(expert_bytes()), 55.0 * kGiB, 0.1 * kGiB);
  const auto on = [](const std::string& device, const char* ram_gib) {
    return plan({{Key::kDevice, device}, {Key::kRamGib, ram_gib}}).value();
  };
  const ModelPlan large_ram = on("sim:12GiB", "64");
  check_sums(large_ram, {12 * kGiB}, 64 * kGiB);
  EXPECT_EQ(large_ram.plan.source, SourceKind::kArena);
  EXPECT_GT(large_ram.plan.parts[0].slots.n_slots(), 700);

  const ModelPlan large_device = on("sim:24GiB", "32");
  check_sums(large_device, {24 * kGiB}, 32 * kGiB);
  EXPECT_EQ(large_device.plan.source, SourceKind::kResident);
  EXPECT_GT(large_device.plan.resident.bytes(), 29 * kGiB);
  EXPECT_GT(large_device.plan.parts[0].lent_slots, 0);

  const ModelPlan two = on("sim:2x16GiB", "32");
  check_sums(two, {16 * kGiB, 16 * kGiB}, 32 * kGiB);
  EXPECT_EQ(two.plan.source, SourceKind::kResident);
  EXPECT_NEAR(two.request.parts[0].last_layer, 24, 2);

  const ModelPlan cpu = on("cpu", "32");
  check_sums(cpu, {}, 32 * kGiB);
  EXPECT_EQ(cpu.plan.source, SourceKind::kResident);
  EXPECT_EQ(cpu.plan.parts[0].slots.n_slots(), 0);
  EXPECT_GT(cpu.plan.resident.bytes(), 28 * kGiB);
}

TEST_F(LargePlan, ReadsTheMetadataAlone) {
  FaultyFileSystem counting(real_file_system(), real_clock(), {});
  const auto model = gguf::Model::open(path(), counting).value();
  const uint64_t reads = counting.n_reads();
  EXPECT_TRUE(cli::plan_model(*model, settings_of({{Key::kRamGib, "32"}})).ok());
  EXPECT_EQ(counting.n_reads(), reads);
}

TEST_F(LargePlan, AVramBudgetIsALimitOfEachDevice) {
  const auto budgets = [](const char* text) {
    return plan({{Key::kDevice, "sim:2x16GiB"}, {Key::kRamGib, "64"}, {Key::kVramBudgetGib, text}});
  };
  check_sums(*budgets("8"), {8 * kGiB, 8 * kGiB}, 64 * kGiB);
  check_sums(*budgets("8,12.5"), {8 * kGiB, 25 * kGiB / 2}, 64 * kGiB);
  check_sums(*budgets("20"), {16 * kGiB, 16 * kGiB}, 64 * kGiB);
  EXPECT_LT(budgets("8,16")->request.parts[0].last_layer, budgets("16,8")->request.parts[0].last_layer);
  for (const char* text : {"1,2,3", "x", "1,", ",1", "-1", "1;2", "1 2", "nan", "inf", "1e999", "99999999"}) {
    const auto refused = budgets(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("--vram-budget-gib"));
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
  }
  const auto on_cpu = plan({{Key::kVramBudgetGib, "8"}});
  ASSERT_FALSE(on_cpu.ok());
  EXPECT_THAT(on_cpu.error().message, HasSubstr("--ram-gib"));
}

TEST_F(LargePlan, LayersAreSharedOutAsAskedForOrAsIsFastest) {
  const auto split = [](const char* text) {
    return plan({{Key::kDevice, "sim:2x16GiB"}, {Key::kRamGib, "64"}, {Key::kLayerSplit, text}});
  };
  const auto asked = split("30,18");
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  check_sums(*asked, {16 * kGiB, 16 * kGiB}, 64 * kGiB);
  EXPECT_EQ(asked->request.parts[1].first_layer, 30);
  const Result<cli::MeasuredRates> unmeasured = Error{ErrorCode::kNotFound, ""};
  EXPECT_THAT(plan_text(*asked, unmeasured, ""), HasSubstr("| sim:1, layers 30 to 47 | weights |"));
  EXPECT_THAT(plan_text(*asked, unmeasured, ""), HasSubstr("layer split 30,18, as asked for"));
  EXPECT_THAT(plan_text(*split("auto"), unmeasured, ""), HasSubstr("as auto chooses"));
  for (const char* bad : {"48", "24,25", "48,0", "16,16,16", "x"}) {
    const auto refused = split(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(refused.error().message, HasSubstr("--layer-split"));
    EXPECT_EQ(refused.error().code, ErrorCode::kBadInput);
  }
}

TEST_F(LargePlan, WhatDoesNotFitIsRefused) {
  const auto small_ram = plan({{Key::kRamGib, "1"}});
  ASSERT_FALSE(small_ram.ok());
  EXPECT_EQ(small_ram.error().code, ErrorCode::kNoMemory);
  const auto small_device = plan({{Key::kDevice, "sim:1GiB"}, {Key::kRamGib, "64"}});
  ASSERT_FALSE(small_device.ok());
  EXPECT_THAT(small_device.error().message, HasSubstr("sim:0"));
  const auto arena = plan({{Key::kRamGib, "32"}, {Key::kExperts, "arena"}});
  ASSERT_FALSE(arena.ok());
  EXPECT_THAT(arena.error().message, HasSubstr("--experts resident"));
}

// The program, with what it measured in a folder of its own.
class PlanProgram : public LargePlan {
 protected:
  Outcome strata_with_cache(std::vector<std::string> args) const {
    return call({.args = std::move(args), .environment = {{"XDG_CACHE_HOME", cache_.path()}}});
  }
  std::string rates_file() const { return cache_.file("strata/rates.json"); }
  void keep(const cli::MeasuredRates& rates) const { ASSERT_TRUE(cli::save_rates(rates_file(), rates).ok()); }
  static cli::MeasuredRates measured() {
    return {.date = "2024-02-29", .cpu = cli::cpu_name(), .ram = {{1, 10e9}, {2, 16e9}},
            .drive = cli::MeasuredRates::Drive{"2024-03-01", "/models/some.gguf", 2e9}};
  }
  TempDir cache_;
};

TEST_F(PlanProgram, PrintsATableReasonsAndTheSpeed) {
  const std::vector<std::string> args = {"plan", path(), "--ram-gib", "32", "--threads", "2"};
  const Outcome unmeasured = strata_with_cache(args);
  EXPECT_TRUE(succeeded(unmeasured));
  EXPECT_THAT(unmeasured.out, HasSubstr("48 layers with 5568 experts in all, 8 of 116 used in each, 55"));
  EXPECT_THAT(unmeasured.out, HasSubstr("| RAM | resident copy | "));
  EXPECT_THAT(unmeasured.out, HasSubstr("do not fit into the"));
  EXPECT_THAT(unmeasured.out, HasSubstr("no speed can be told: this machine has not been measured"));

  keep(measured());
  const Outcome told = strata_with_cache(args);
  EXPECT_TRUE(succeeded(told));
  EXPECT_THAT(told.out, HasSubstr("decode: about "));
  EXPECT_THAT(told.out, HasSubstr("bound by reading the drive"));
  EXPECT_THAT(told.out, HasSubstr("RAM 16.0 GB/s with 2 threads (2024-02-29)"));
  EXPECT_THAT(told.out, HasSubstr("drive 2.00 GB/s (/models/some.gguf, 2024-03-01)"));
  EXPECT_EQ(strata_with_cache(args).out, told.out);
}

// Small weights share large pieces of memory, so a layer alone seems larger than it is.
TEST_F(PlanProgram, AutoLeavesDevicesOutThatAreTooSmall) {
  for (const auto& [device, split] : {std::pair{"sim:64MiB,20MiB", "8,0"}, std::pair{"sim:1MiB,64MiB", "0,8"},
                                      std::pair{"sim:64MiB,8MiB,8MiB", "8,0,0"}}) {
    const Outcome outcome =
        call({.args = {"plan", demo_model(), "--act", "f32", "--kv-type", "f32", "--device", device}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("layer split " + std::string(split) + ", as auto chooses"));
  }
}

TEST_F(PlanProgram, SaysWhyItCannotTellTheSpeed) {
  const std::vector<std::string> args = {"plan", path(), "--ram-gib", "32"};
  cli::MeasuredRates rates = measured();
  rates.drive = std::nullopt;
  keep(rates);
  EXPECT_THAT(strata_with_cache(args).out, HasSubstr("the drive has not been measured"));
  EXPECT_THAT(strata_with_cache({"plan", demo_model()}).out, HasSubstr("bound by reading RAM"));
  rates.cpu = "another one";
  keep(rates);
  EXPECT_THAT(strata_with_cache(args).out, HasSubstr("what was measured is another processor"));
  write_file(rates_file(), "{");
  const Outcome hostile = strata_with_cache(args);
  EXPECT_TRUE(succeeded(hostile));
  EXPECT_THAT(hostile.out, HasSubstr("is not a file of measured rates"));
}

TEST_F(PlanProgram, AProfileMakesTheHotExpertsCheap) {
  keep(measured());
  const auto model = gguf::Model::open(path(), real_file_system()).value();
  const ModelPlan even = plan({{Key::kRamGib, "32"}}).value();
  experts::ExpertProfile profile(experts::RoutedModel::of(*model, even.request.layout));
  for (int32_t l = 0; l < 48; l++) {
    for (int32_t e = 0; e < 16; e++) profile.add({l, 115 - e}, 10);
  }
  ASSERT_TRUE(profile.save(cache_.file("profile")).ok());
  const ModelPlan hot = plan({{Key::kRamGib, "32"}, {Key::kExpertProfile, cache_.file("profile")}}).value();
  EXPECT_EQ(hot.plan.tier({5, 110}), Tier::kRam);
  const experts::MachineRates rates{.ram = 16e9, .drive = 2e9, .devices = {0}};
  const auto predict = [&](const ModelPlan& planned) {
    return experts::predict_decode(planned.request.input(), planned.plan, planned.needs, rates);
  };
  EXPECT_EQ(predict(hot).file_bytes, 0);
  EXPECT_GT(predict(even).file_bytes, 1e9);
}

TEST_F(PlanProgram, TakesWhatBenchSystemMeasured) {
  ASSERT_EQ(strata_with_cache({"bench", "system", "--buffer-mib", "4", "--file", demo_model()}).exit_code, 0);
  const auto rates = cli::load_rates(rates_file());
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  EXPECT_EQ(rates->cpu, cli::cpu_name());
  EXPECT_EQ(rates->drive->path, demo_model());
  EXPECT_EQ(rates->date.size(), 10u);
  EXPECT_THAT(strata_with_cache({"plan", demo_model()}).out, HasSubstr("decode: about "));
  // Without a drive it keeps what it knew of that.
  ASSERT_EQ(strata_with_cache({"bench", "system", "--buffer-mib", "4"}).exit_code, 0);
  EXPECT_EQ(cli::load_rates(rates_file())->drive->path, demo_model());
}

TEST_F(PlanProgram, RefusesWhatItCannotPlan) {
  EXPECT_TRUE(refused(strata({"plan", "/nowhere/model.gguf"}), 2, "/nowhere/model.gguf"));
  EXPECT_TRUE(refused(strata({"plan", path(), "--device", "sim:12"}), 2, "'12' has to be a memory size"));
  EXPECT_TRUE(refused(strata({"plan", path(), "--ram-gib", "1"}), 1, "--ram-gib"));
  EXPECT_TRUE(refused(strata({"plan", path(), path()}), 2, "one model"));
}

TEST(MeasuredRates, AreWhatWasSaved) {
  const TempDir dir;
  const std::string path = dir.file("a/b/rates.json");
  EXPECT_EQ(cli::load_rates(path).error().code, ErrorCode::kNotFound);
  cli::MeasuredRates rates{.date = "2024-02-29", .cpu = "A \"CPU\"\n", .ram = {{1, 10e9}, {8, 40e9}}, .drive = {}};
  ASSERT_TRUE(cli::save_rates(path, rates).ok());
  const cli::MeasuredRates read = cli::load_rates(path).value();
  EXPECT_EQ(read.date, rates.date);
  EXPECT_EQ(read.cpu, rates.cpu);
  ASSERT_EQ(read.ram.size(), 2u);
  EXPECT_EQ(read.ram[1].threads, 8);
  EXPECT_EQ(read.ram[1].bytes_per_second, 40e9);
  EXPECT_FALSE(read.drive.has_value());

  EXPECT_EQ(read.ram_rate(1), 10e9);
  EXPECT_EQ(read.ram_rate(3), 30e9);
  EXPECT_EQ(read.ram_rate(7), 40e9);
  EXPECT_EQ(read.ram_rate(8), 40e9);
  EXPECT_EQ(read.ram_rate(16), 40e9);
}

TEST(MeasuredRates, FilesOfOthersAreRefused) {
  const TempDir dir;
  const std::string path = dir.file("rates.json");
  const std::string ram = R"("ram": [{"threads": 1, "bytes_per_second": 1e9}])";
  const std::string good = R"({"date": "d", "cpu": "c", )" + ram + "}";
  write_file(path, good);
  ASSERT_TRUE(cli::load_rates(path).ok());
  std::vector<std::string> bad = {"", "null", "[]", "{}", "\xff", good.substr(1), good.substr(0, good.size() - 2),
                                  R"({"cpu": "c", )" + ram + "}", R"({"date": 5, "cpu": "c", )" + ram + "}"};
  for (const char* rows : {"[]", "{}", "[1]", R"([{"threads": 1}])", R"([{"threads": 0, "bytes_per_second": 1}])",
                           R"([{"threads": 1e99, "bytes_per_second": 1}])",
                           R"([{"threads": 1, "bytes_per_second": -1}])",
                           R"([{"threads": 1, "bytes_per_second": "fast"}])"}) {
    bad.push_back(std::string(R"({"date": "d", "cpu": "c", "ram": )") + rows + "}");
  }
  for (const char* drive : {"1", R"({"path": "p"})", R"({"path": "p", "date": "d", "bytes_per_second": 0})"}) {
    bad.push_back(R"({"date": "d", "cpu": "c", )" + ram + R"(, "drive": )" + drive + "}");
  }
  bad.emplace_back(100000, ' ');
  bad.push_back(std::string(20000, '['));
  for (const std::string& text : bad) {
    write_file(path, text);
    const auto loaded = cli::load_rates(path);
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_EQ(loaded.error().code, ErrorCode::kBadInput) << text;
  }
}

}  // namespace
}  // namespace strata::test
