// The arena and the mapped files: right bytes from every form of file, and what happens when reading fails.
#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "experts/sources/arena.h"
#include "experts/support.h"
#include "gguf/writer.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using device::host::HostDevice;
using experts::ArenaSource;
using experts::ExpertKey;
using experts::ExpertLayout;
using experts::ExpertSource;
using experts::Lease;
using experts::PartKind;
using Form = ExpertSpec::Form;

using SourceResult = Result<std::unique_ptr<ExpertSource>>;

// Leases of all experts in one fetch per layer, each part full of its own number.
void expect_numbered(ExpertSource& source, const ExpertModel& m) {
  for (int32_t l = 0; l < m.spec.n_layers; l++) {
    std::vector<ExpertKey> keys;
    for (auto e = static_cast<int32_t>(m.spec.n_experts) - 1; e >= 0; e--) keys.push_back({l, e});
    std::vector<Lease> leases(keys.size());
    ASSERT_TRUE(source.fetch(keys, leases).ok());
    for (size_t i = 0; i < keys.size(); i++) {
      ASSERT_TRUE(leases[i].valid());
      EXPECT_EQ(leases[i].key(), keys[i]);
      const auto& parts = m.layout.layer(l).parts;
      const std::optional<Lease> again = source.try_lease(keys[i]);
      ASSERT_TRUE(again.has_value());
      for (size_t p = 0; p < parts.size(); p++) {
        const std::byte* at = leases[i].part(static_cast<int>(p));
        EXPECT_EQ(again->part(static_cast<int>(p)), at);
        const bool fused = parts[p].kind == PartKind::kGateUp;
        const size_t first = fused ? parts[p].bytes / 2 : parts[p].bytes;
        const auto number = std::byte{part_number(keys[i], fused ? PartKind::kGate : parts[p].kind)};
        EXPECT_EQ(std::count(at, at + first, number), static_cast<std::ptrdiff_t>(first));
        if (!fused) continue;
        EXPECT_EQ(std::count(at + first, at + 2 * first, std::byte{part_number(keys[i], PartKind::kUp)}),
                  static_cast<std::ptrdiff_t>(first));
      }
    }
  }
}

const std::vector<ExpertSpec>& specs() {
  static const std::vector<ExpertSpec> all = {
      {.n_layers = 2},
      {.form = Form::kFused, .n_layers = 2, .biases = true},
      {.form = Form::kSeparate, .n_layers = 2},
      {.n_layers = 1, .dim = 64, .n_experts = 9, .gate_up_type = quant::Type::Q8_0, .down_type = quant::Type::MXFP4,
       .biases = true, .scales = true},
  };
  return all;
}

TEST(Sources, TheArenaHoldsEveryExpert) {
  HostDevice device(host_options(3));
  for (const ExpertSpec& spec : specs()) {
    for (const int n_files : {1, 3}) {
      const ExpertModel m(spec, numbered_parts(), n_files);
      Stats stats;
      const auto source = ArenaSource::create(*m.model, m.layout, device, device.compute().pool(), stats);
      ASSERT_TRUE(source.ok()) << source.error().message;
      EXPECT_EQ(device.used_bytes(), m.layout.total_bytes());
      const auto blobs = spec.n_layers * spec.n_experts;
      int64_t bytes = 0;
      for (const auto& part : m.layout.layer(0).parts) bytes += static_cast<int64_t>(part.bytes);
      EXPECT_EQ(stats.get(Counter::kFileReads), blobs * static_cast<int64_t>(m.layout.layer(0).parts.size()));
      EXPECT_EQ(stats.get(Counter::kFileReadBytes), blobs * bytes);
      expect_numbered(**source, m);
      EXPECT_EQ(stats.get(Counter::kArenaLeases), 2 * blobs);
      EXPECT_EQ(stats.get(Counter::kMappedLeases), 0);
      const Lease lease = *(*source)->try_lease({0, 1});
      for (size_t i = 0; i < m.layout.layer(0).parts.size(); i++) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.part(static_cast<int>(i))) % experts::kPartAlignment, 0u);
      }
      EXPECT_TRUE((*source)->health().ok());
    }
  }
  EXPECT_EQ(device.used_bytes(), 0u);
}

TEST(Sources, MappedFilesHoldEveryExpert) {
  for (const ExpertSpec& spec : specs()) {
    for (const int n_files : {1, 3}) {
      const ExpertModel m(spec, numbered_parts(), n_files);
      Stats stats;
      const auto source = make_mapped_source(*m.model, m.layout, stats);
      ASSERT_TRUE(source.ok()) << source.error().message;
      expect_numbered(**source, m);
      EXPECT_EQ(stats.get(Counter::kMappedLeases), 2 * spec.n_layers * spec.n_experts);
      EXPECT_GE(stats.get(Counter::kMappedReadAheads), spec.n_layers * spec.n_experts);
      EXPECT_EQ(stats.get(Counter::kArenaLeases), 0);
      EXPECT_EQ(stats.get(Counter::kFileReads), 0);
    }
  }
}

// The numbered experts behind a file system that spoils reads.
class FaultyArena {
 public:
  FaultyArena(HostDevice& device, FaultPlan plan)
      : spec_{.n_layers = 2, .n_experts = 8}, clean_(spec_, numbered_parts(), 3),
        files_(clean_.files.system(), clock_, std::move(plan)), device_(device) {}

  // Opening the model reads as well; its reads come first.
  SourceResult make() {
    auto opened = gguf::Model::open(clean_.files.path(), files_);
    if (!opened.ok()) return opened.error();
    model_ = std::move(*opened);
    auto arena = ArenaSource::create(*model_, clean_.layout, device_, device_.compute().pool(), stats_);
    if (!arena.ok()) return arena.error();
    return std::unique_ptr<ExpertSource>(std::move(*arena));
  }
  uint64_t reads_of_opening() {
    FaultyFileSystem counting(clean_.files.system(), clock_, {});
    EXPECT_TRUE(gguf::Model::open(clean_.files.path(), counting).ok());
    return counting.n_reads();
  }
  const ExpertModel& clean() const { return clean_; }
  const FaultyFileSystem& files() const { return files_; }

 private:
  ManualClock clock_;
  ExpertSpec spec_;
  ExpertModel clean_;
  FaultyFileSystem files_;
  HostDevice& device_;
  std::unique_ptr<gguf::Model> model_;
  Stats stats_;
};

TEST(Sources, AnIoErrorNamesFileAndOffset) {
  HostDevice device(host_options(1));
  const uint64_t opening = FaultyArena(device, {}).reads_of_opening();
  FaultyArena arena(device, {.at = {{opening, Fault::kIoError}}});
  const SourceResult source = arena.make();
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().code, ErrorCode::kIo);
  EXPECT_THAT(source.error().message, testing::HasSubstr("/models/moe-00001-of-00003.gguf"));
  const experts::BlobPart& gate = arena.clean().layout.layer(0).parts[0];
  // The reads start with the first part of the first expert.
  EXPECT_THAT(source.error().message, testing::HasSubstr("offset " + std::to_string(gate.places[0].offset)));
  EXPECT_EQ(device.used_bytes(), 0u);
}

TEST(Sources, AnIoErrorOfAnyReadEndsTheLoad) {
  HostDevice device(host_options(3));
  const uint64_t opening = FaultyArena(device, {}).reads_of_opening();
  for (const uint64_t read : {1, 7, 23, 47}) {  // of 48
    FaultyArena arena(device, {.at = {{opening + read, Fault::kIoError}}});
    const SourceResult source = arena.make();
    ASSERT_FALSE(source.ok()) << "read " << read;
    EXPECT_EQ(source.error().code, ErrorCode::kIo);
    EXPECT_EQ(arena.files().n_injected(Fault::kIoError), 1u);
  }
  EXPECT_EQ(device.used_bytes(), 0u);
}

TEST(Sources, ShortAndInterruptedReadsGiveTheRightBytes) {
  HostDevice device(host_options(2));
  FaultPlan plan{.seed = 3};
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.5;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.2;
  FaultyArena arena(device, plan);
  const SourceResult source = arena.make();
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_GT(arena.files().n_injected(Fault::kShortRead), 20u);
  EXPECT_GT(arena.files().n_injected(Fault::kInterrupted), 10u);
  expect_numbered(**source, arena.clean());
}

TEST(Sources, TheArenaStaysWithinTheBudget) {
  const ExpertModel m({.n_layers = 2}, numbered_parts());
  HostDevice device(host_options(1, m.layout.total_bytes() - 1));
  Stats stats;
  expect_error(ArenaSource::create(*m.model, m.layout, device, device.compute().pool(), stats), ErrorCode::kNoMemory,
               {"expert arena", "192 KiB"});
  EXPECT_EQ(m.layout.total_bytes(), 192 * kKiB);
  EXPECT_EQ(stats.get(Counter::kFileReads), 0);
  EXPECT_EQ(device.used_bytes(), 0u);
}

// A real file, written and then cut to one page while it is mapped.
TEST(Sources, AMappedFileThatIsCutIsNoticed) {
  const TempDir folder;
  const std::string path = folder.file("moe.gguf");
  const ExpertSpec spec{.n_layers = 1};
  const std::vector<TensorSpec> tensors = expert_tensors(spec, numbered_parts());
  gguf::Writer writer("test");
  for (const TensorSpec& t : tensors) writer.add_tensor(t.name, static_cast<quant::Type>(t.type), t.ne, *t.data);
  ASSERT_TRUE(writer.write(path).ok());
  const auto model = gguf::Model::open(path, real_file_system()).value();
  const ExpertLayout layout = ExpertLayout::from_model(*model, 1, spec.dim, spec.ffn, spec.n_experts).value();
  Stats stats;
  const auto source = make_mapped_source(*model, layout, stats).value();
  const int down = layout.layer(0).index(PartKind::kDown);
  ASSERT_TRUE(source->health().ok());
  const Lease lease = *source->try_lease({0, 3});
  ASSERT_EQ(lease.part(down)[0], std::byte{part_number({0, 3}, PartKind::kDown)});

  std::filesystem::resize_file(path, 4096);
  const volatile std::byte* lost = lease.part(down);
  EXPECT_TRUE(lost[0] == std::byte{0});
  const Status health = source->health();
  expect_error(health, ErrorCode::kIo, {path.c_str()});
  const ExpertKey keys[] = {{0, 0}, {0, 1}};
  Lease leases[2];
  expect_error(source->fetch(keys, leases), ErrorCode::kIo, {path.c_str()});
  EXPECT_FALSE(leases[0].valid());
  EXPECT_FALSE(leases[1].valid());
}

// A file that was cut between the reading of its head and the mapping.
TEST(Sources, AFileThatIsShorterThanItWasIsRefused) {
  class Shrunk final : public FileSystem {
   public:
    Shrunk(FileSystem& full, FileSystem& cut) : full_(full), cut_(cut) {}
    Result<std::unique_ptr<File>> open(const std::string& path) override {
      class MapsAnother final : public File {
       public:
        MapsAnother(std::unique_ptr<File> full, std::unique_ptr<File> cut)
            : full_(std::move(full)), cut_(std::move(cut)) {}
        const std::string& path() const override { return full_->path(); }
        uint64_t size() const override { return full_->size(); }
        Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
          return full_->read_some(offset, dst);
        }
        Result<std::unique_ptr<Mapping>> map() override { return cut_->map(); }

       private:
        std::unique_ptr<File> full_, cut_;
      };
      ASSIGN_OR_RETURN(auto full, full_.open(path));
      ASSIGN_OR_RETURN(auto cut, cut_.open(path));
      return std::unique_ptr<File>(std::make_unique<MapsAnother>(std::move(full), std::move(cut)));
    }
    bool exists(const std::string& path) override { return full_.exists(path); }
    bool is_directory(const std::string& path) override { return full_.is_directory(path); }
    Result<std::vector<std::string>> list(const std::string& directory) override { return full_.list(directory); }

   private:
    FileSystem& full_;
    FileSystem& cut_;
  };
  ExpertModel m({.n_layers = 1}, numbered_parts());
  MemoryFileSystem cut;
  cut.add_file(m.files.path(), std::vector<std::byte>(4096));
  Shrunk files(m.files.system(), cut);
  const auto model = gguf::Model::open(m.files.path(), files).value();
  Stats stats;
  expect_error(make_mapped_source(*model, m.layout, stats), ErrorCode::kIo, {"/models/moe.gguf", "4096"});
}

}  // namespace
}  // namespace strata::test
