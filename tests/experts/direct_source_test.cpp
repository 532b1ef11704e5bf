// Experts read when they are asked for: right bytes from every form of file, simulated and real, and what is read when.
#include "experts/sources/direct.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/stepped_clock.h"
#include "experts/direct_rig.h"
#include "gguf/writer.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using experts::DirectSource;
using experts::ExpertKey;
using experts::HintKind;
using experts::Lease;
using Form = ExpertSpec::Form;
using testing::HasSubstr;

std::unique_ptr<DirectSource> make(const experts::DirectOptions& options) {
  auto source = experts::make_direct_source(options);
  EXPECT_TRUE(source.ok()) << source.error().message;
  return std::move(source).value();
}

std::vector<ExpertKey> keys_of(int32_t layer, std::initializer_list<int32_t> experts) {
  std::vector<ExpertKey> keys;
  for (const int32_t e : experts) keys.push_back({layer, e});
  return keys;
}

TEST(DirectSource, EveryExpertArrives) {
  const std::vector<ExpertSpec> specs = {
      {.n_layers = 2},
      {.form = Form::kFused, .n_layers = 2, .biases = true},
      {.form = Form::kSeparate, .n_layers = 2},
      {.dim = 64, .n_experts = 9, .gate_up_type = quant::Type::Q8_0, .down_type = quant::Type::MXFP4, .biases = true,
       .scales = true},
  };
  for (const ExpertSpec& spec : specs) {
    for (const int n_files : {1, 3}) {
      DirectRig rig(spec, n_files);
      const auto source = make(rig.options());
      for (int32_t l = 0; l < spec.n_layers; l++) {
        std::vector<ExpertKey> keys;
        for (auto e = static_cast<int32_t>(spec.n_experts) - 1; e >= 0; e--) keys.push_back({l, e});
        std::vector<Lease> leases(keys.size());
        ASSERT_TRUE(source->fetch(keys, leases).ok());
        for (size_t i = 0; i < keys.size(); i++) {
          EXPECT_EQ(leases[i].key(), keys[i]);
          EXPECT_TRUE(rig.right(leases[i]));
        }
      }
      EXPECT_EQ(rig.stats.get(Counter::kStageFills), spec.n_layers * spec.n_experts);
      EXPECT_EQ(source->n_buffers(), std::max<int64_t>(4, spec.n_experts));
      EXPECT_THAT(rig.machine->races(), testing::IsEmpty());
    }
  }
}

TEST(DirectSource, WhatIsThereIsNotReadAgain) {
  DirectRig rig({.n_layers = 2});
  const auto source = make(rig.options());
  EXPECT_EQ(source->lease_limit(), 4);
  EXPECT_FALSE(source->try_lease({0, 1}).has_value());
  const auto keys = keys_of(0, {0, 1, 3});
  std::vector<Lease> leases(3);
  ASSERT_TRUE(source->fetch(keys, leases).ok());
  const int64_t reads = rig.stats.get(Counter::kFileReads);
  EXPECT_EQ(reads, 4);  // 0 and 1 lie side by side, and so do 3 and the next tensor's 0
  EXPECT_EQ(rig.stats.get(Counter::kStageWaits), 1);
  for (Lease& lease : leases) lease.release();
  ASSERT_TRUE(source->fetch(keys, leases).ok());
  const std::optional<Lease> lease = source->try_lease({0, 1});
  ASSERT_TRUE(lease.has_value());
  EXPECT_TRUE(rig.right(*lease));
  EXPECT_EQ(rig.stats.get(Counter::kFileReads), reads);
  EXPECT_EQ(rig.stats.get(Counter::kStageHits), 4);
  EXPECT_EQ(rig.stats.get(Counter::kStageFills), 3);
  EXPECT_EQ(rig.stats.get(Counter::kStageWaits), 1);
}

// Six reads: three parts of two experts that don't touch. All are under way before the first comes back.
TEST(DirectSource, AllMissingExpertsAreReadAtOnce) {
  DirectRig rig({.n_layers = 1});
  SteppedClock clock;
  FaultPlan plan{.stall_ns = 1'000'000'000};
  plan.probability[static_cast<size_t>(Fault::kStall)] = 1;
  FaultyFileSystem files(rig.model.files.system(), clock, plan);
  const auto source = make(rig.options(files, clock));
  std::vector<Lease> leases(2);
  Thread fetching([&] { EXPECT_TRUE(source->fetch(keys_of(0, {0, 2}), leases).ok()); });
  clock.wait_for_sleepers(6);
  clock.advance_s(1);
  fetching.join();
  EXPECT_TRUE(rig.right(leases[0]));
  EXPECT_TRUE(rig.right(leases[1]));
}

// A hint returns while its read stalls; the fetch that wants the same waits for that read and makes none of its own.
TEST(DirectSource, AHintIsReadWhileTheCallerComputes) {
  DirectRig rig({.n_layers = 2});
  SteppedClock clock;
  FaultPlan plan{.stall_ns = 1'000'000'000};
  plan.probability[static_cast<size_t>(Fault::kStall)] = 1;
  FaultyFileSystem files(rig.model.files.system(), clock, plan);
  const auto source = make(rig.options(files, clock));
  source->hint(keys_of(0, {1, 1}), HintKind::kGuess);
  clock.wait_for_sleepers(3);
  EXPECT_FALSE(source->try_lease({0, 1}).has_value());
  Lease lease;
  const auto keys = keys_of(0, {1});
  Thread fetching([&] { EXPECT_TRUE(source->fetch(keys, {&lease, 1}).ok()); });
  while (rig.stats.get(Counter::kStageWaits) == 0) std::this_thread::yield();
  clock.advance_s(1);
  fetching.join();
  EXPECT_TRUE(rig.right(lease));
  EXPECT_EQ(rig.stats.get(Counter::kFileReads), 3);
  EXPECT_EQ(rig.stats.get(Counter::kHintsUsed), 1);
}

TEST(DirectSource, AHintMakesALaterLeaseAHit) {
  DirectRig rig({.n_layers = 2});
  const auto source = make(rig.options());
  source->hint(keys_of(1, {0, 3}), HintKind::kGuess);
  std::optional<Lease> lease;
  while (!(lease = source->try_lease({1, 3}))) std::this_thread::yield();
  EXPECT_TRUE(rig.right(*lease));
  EXPECT_EQ(rig.stats.get(Counter::kStageWaits), 0);
}

// Straight out of the buffer: the refill waits for the copy.
TEST(DirectSource, CopiesAreQueuedOutOfTheBuffer) {
  DirectRig rig({.n_layers = 2});
  experts::DirectOptions options = rig.options();
  options.n_buffers = 1;
  const auto source = make(options);
  const auto stream = rig.device.make_stream("copies");
  const experts::BlobPart& down = rig.model.layout.layer(0).parts[2];
  const auto target = rig.device.allocate(down.bytes, "target").value();
  Lease lease;
  ASSERT_TRUE(source->fetch(keys_of(0, {2}), {&lease, 1}).ok());
  const Lease::HostPlace place = lease.host_place(2);
  stream->copy(*target, 0, *place.buffer, place.offset, down.bytes);
  lease.note_async_read(*stream);
  lease.release();
  ASSERT_TRUE(source->fetch(keys_of(1, {2}), {&lease, 1}).ok());
  EXPECT_TRUE(rig.right(lease));
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(*target->address(), std::byte{part_number({0, 2}, down.kind)});
  EXPECT_THAT(rig.machine->races(), testing::IsEmpty());
  lease.release();
}

TEST(DirectSource, TheEndOfStartUpGivesBuffersBack) {
  DirectRig rig({.n_layers = 1, .n_experts = 8});
  const auto source = make(rig.options());
  {
    std::vector<Lease> leases(8);
    ASSERT_TRUE(source->fetch(keys_of(0, {0, 1, 2, 3, 4, 5, 6, 7}), leases).ok());
    EXPECT_EQ(source->n_buffers(), 8);
  }
  source->hint(keys_of(0, {0}), HintKind::kGuess);
  source->end_start_up();
  EXPECT_EQ(source->n_buffers(), 4);
  Lease lease;
  ASSERT_TRUE(source->fetch(keys_of(0, {7}), {&lease, 1}).ok());
  EXPECT_TRUE(rig.right(lease));
}

TEST(DirectSource, BuffersThatTheSystemDoesNotHaveAreAnError) {
  DirectRig rig({.n_layers = 1});
  experts::DirectOptions options = rig.options();
  options.pin = false;
  rig.machine->faults().fail_at(device::sim::FaultPoint::kAllocation, 3);
  expect_error(experts::make_direct_source(options), ErrorCode::kNoMemory, {"stage buffer"});
  EXPECT_EQ(rig.machine->host_bytes(), 0u);
}

TEST(DirectSource, AFileThatChangedIsRefused) {
  DirectRig rig({.n_layers = 1});
  MemoryFileSystem cut;
  cut.add_file(rig.model.files.path(), std::vector<std::byte>(4096));
  expect_error(experts::make_direct_source(rig.options(cut)), ErrorCode::kIo,
               {"/models/moe.gguf", "beyond the file's 4096 bytes"});
  MemoryFileSystem empty;
  expect_error(experts::make_direct_source(rig.options(empty)), ErrorCode::kNotFound, {"/models/moe.gguf"});
}

TEST(DirectSource, BufferSizesCountWholeBlocks) {
  const ExpertModel m({.n_layers = 1}, numbered_parts());  // three parts of 8 KiB that start anywhere
  EXPECT_GE(experts::direct_buffer_bytes(m.layout), 3 * (8 * kKiB));
  EXPECT_LE(experts::direct_buffer_bytes(m.layout), 3 * (8 * kKiB + 4096));
  EXPECT_EQ(experts::direct_buffer_bytes(m.layout) % 4096, 0u);
}

// Real files, written with odd offsets, below a folder.
void expect_real_experts(const std::string& folder, const char* report) {
  const std::string path = folder + "/moe.gguf";
  const ExpertSpec spec{.n_layers = 2, .n_experts = 7, .biases = true};
  gguf::Writer writer("test");
  const std::vector<TensorSpec> tensors = expert_tensors(spec, numbered_parts());
  for (const TensorSpec& t : tensors) {
    writer.add_tensor(t.name, static_cast<quant::Type>(t.type), t.ne, *t.data);
  }
  ASSERT_TRUE(writer.write(path).ok());
  const auto model = gguf::Model::open(path, real_file_system()).value();
  DirectRig rig(spec);
  const auto layout = experts::ExpertLayout::from_model(*model, 2, spec.dim, spec.ffn, spec.n_experts).value();
  const auto source = make(rig.options(*model, layout, real_file_system(), real_clock()));
  EXPECT_THAT(source->report(), HasSubstr(report));
  EXPECT_THAT(source->report(), HasSubstr("\n4 stage buffers of "));
  for (int32_t l = 0; l < 2; l++) {
    std::vector<Lease> leases(7);
    ASSERT_TRUE(source->fetch(keys_of(l, {6, 0, 3, 1, 2, 4, 5}), leases).ok());
    for (const Lease& lease : leases) EXPECT_TRUE(rig.right(lease));
  }
  EXPECT_THAT(rig.machine->races(), testing::IsEmpty());
}

TEST(DirectSource, RealFilesPastThePageCache) {
  const TempDir folder;
  std::ofstream(folder.file("probe")) << "x";
  if (const auto direct = real_file_system().open_direct(folder.file("probe")); !direct.ok()) {
    GTEST_SKIP() << direct.error().message;
  }
  expect_real_experts(folder.path(), ", past the page cache\n");
}

TEST(DirectSource, RealFilesInMemory) {
  const TempDir folder("/dev/shm");
  if (folder.path().empty()) GTEST_SKIP() << "no /dev/shm";
  expect_real_experts(folder.path(), "through the page cache: ");
}

}  // namespace
}  // namespace strata::test
