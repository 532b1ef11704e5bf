// What an engine promises when something goes wrong, and what a step may not do: refused steps leave sequences and
// counters as they were, memory that does not suffice is said before anything is loaded, lost files end in errors,
// steps allocate nothing.
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/file_sim.h"
#include "base/format.h"
#include "engine/engine.h"
#include "support/golden.h"
#include "text/counting_new.h"

namespace strata::test {
namespace {

using engine::Engine;
using engine::EngineConfig;
using testing::HasSubstr;

const char* const kArchs[] = {"qwen3moe", "gpt-oss", "qwen3next", "qwen4exp"};

std::string model_path(const std::string& arch) { return golden_path("arch/" + arch + "/model-bf16.gguf"); }

EngineConfig small_config() {
  EngineConfig config;
  config.context = 64;
  config.threads = 2;
  config.chunk = 16;
  config.max_sequences = 3;
  config.ram_bytes = kGiB;
  return config;
}

std::vector<int32_t> some_ids(int n) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; i++) ids.push_back((i * 37 + 11) % 512);
  return ids;
}

// An engine with what it refers to.
struct Opened {
  std::unique_ptr<gguf::Model> model;
  Stats stats;
  std::unique_ptr<Engine> engine;
};
std::unique_ptr<Opened> open(const std::string& path, const EngineConfig& config,
                             FileSystem& files = real_file_system()) {
  auto opened = std::make_unique<Opened>();
  auto model = gguf::Model::open(path, files);
  EXPECT_TRUE(model.ok()) << model.error().message;
  if (!model.ok()) return nullptr;
  opened->model = std::move(*model);
  auto engine = Engine::open(*opened->model, config, opened->stats);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  if (!engine.ok()) return nullptr;
  opened->engine = std::move(*engine);
  return opened;
}

Status step(Engine& engine, model::SequenceState& sequence, std::span<const int32_t> ids) {
  const model::BatchRows batch[] = {{&sequence, ids}};
  return engine.step(batch);
}

// Logits of rows of the last step, one after another.
Result<std::vector<float>> logits(Engine& engine, const std::vector<int32_t>& rows) {
  std::vector<float> all;
  RETURN_IF_ERROR(engine.logits(rows, [&](int64_t, std::span<const float> row) -> Status {
    all.insert(all.end(), row.begin(), row.end());
    return {};
  }));
  return all;
}

// Logits after `ids`, in steps of at most `chunk` rows.
std::vector<float> last_logits(Engine& engine, std::span<const int32_t> ids) {
  auto sequence = engine.make_sequence();
  EXPECT_TRUE(sequence.ok());
  std::vector<float> found;
  const Status status = engine.prefill(*sequence, ids, [&](int64_t, int64_t n) -> Status {
    ASSIGN_OR_RETURN(found, logits(engine, {static_cast<int32_t>(n) - 1}));
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return found;
}

// Everything that a refused step must not move.
struct Snapshot {
  std::vector<int64_t> n_tokens;
  std::vector<std::vector<int32_t>> blocks;
  std::string counters;
  bool operator==(const Snapshot&) const = default;
};
Snapshot snapshot(const Opened& opened, const std::vector<const model::SequenceState*>& sequences) {
  Snapshot s;
  for (const model::SequenceState* sequence : sequences) {
    s.n_tokens.push_back(sequence->n_tokens());
    s.blocks.push_back(sequence->blocks());
  }
  s.counters = opened.stats.to_text();
  return s;
}

TEST(EngineSteps, RefusedOnesChangeNothing) {
  for (const char* arch : kArchs) {
    SCOPED_TRACE(arch);
    const auto opened = open(model_path(arch), small_config());
    ASSERT_NE(opened, nullptr);
    Engine& engine = *opened->engine;
    auto a = engine.make_sequence();
    auto b = engine.make_sequence();
    ASSERT_TRUE(a.ok() && b.ok());
    const std::vector<int32_t> ids = some_ids(16);
    for (int i = 0; i < 4; i++) ASSERT_TRUE(step(engine, *b, std::span(ids).first(15)).ok());
    const std::vector<float> expected = last_logits(engine, ids);
    const Snapshot before = snapshot(*opened, {&*a, &*b});

    const auto refused = [&](std::vector<model::BatchRows> batch, const std::string& piece) {
      const Status status = engine.step(batch);
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, ErrorCode::kBadInput);
      EXPECT_THAT(status.error().message, HasSubstr(piece));
      EXPECT_TRUE(snapshot(*opened, {&*a, &*b}) == before);
    };
    const int32_t below = -1, above = 512, far = INT32_MAX;
    refused({{&*a, {&below, 1}}}, "token id -1");
    refused({{&*a, {&above, 1}}}, "token id 512 is outside the vocabulary of 512");
    refused({{&*a, {&far, 1}}}, "token id 2147483647");
    refused({{&*b, std::span(ids).first(5)}}, "65 tokens exceed the context of 64");
    // The first sequence of a batch is innocent of what is wrong with the second.
    refused({{&*a, std::span(ids).first(8)}, {&*b, {&above, 1}}}, "token id 512");
    refused({{&*a, std::span(ids).first(8)}, {&*b, std::span(ids).first(5)}}, "65 tokens");

    ASSERT_TRUE(step(engine, *a, ids).ok());
    const auto found = logits(engine, {15});
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, expected);
  }
}

TEST(EngineSteps, SequencesAreLimited) {
  const auto opened = open(model_path("qwen3moe"), small_config());
  ASSERT_NE(opened, nullptr);
  std::vector<model::SequenceState> all;
  all.reserve(3);
  for (int i = 0; i < 3; i++) {
    auto made = opened->engine->make_sequence();
    ASSERT_TRUE(made.ok());
    all.push_back(std::move(*made));
  }
  const auto fourth = opened->engine->make_sequence();
  ASSERT_FALSE(fourth.ok());
  EXPECT_EQ(fourth.error().code, ErrorCode::kNoMemory);
  all.pop_back();
  EXPECT_TRUE(opened->engine->make_sequence().ok());
}

// A chunk of one row still takes one row of every sequence.
TEST(EngineSteps, AChunkSmallerThanTheBatchIsWidened) {
  for (const char* arch : kArchs) {
    SCOPED_TRACE(arch);
    EngineConfig config = small_config();
    config.chunk = 1;
    config.deterministic = true;
    const auto opened = open(model_path(arch), config);
    ASSERT_NE(opened, nullptr);
    Engine& engine = *opened->engine;
    EXPECT_EQ(engine.max_rows(), 3);
    const std::vector<int32_t> ids = some_ids(10);
    const std::vector<float> expected = last_logits(engine, ids);
    std::vector<model::SequenceState> all;
    all.reserve(3);
    for (int i = 0; i < 3; i++) all.push_back(engine.make_sequence().value());
    for (const int32_t& id : ids) {
      const model::BatchRows batch[] = {{&all[0], {&id, 1}}, {&all[1], {&id, 1}}, {&all[2], {&id, 1}}};
      ASSERT_TRUE(engine.step(batch).ok());
    }
    const auto found = logits(engine, {2, 0, 1});
    ASSERT_TRUE(found.ok());
    for (size_t i = 0; i < 3; i++) {
      EXPECT_EQ(std::memcmp(found->data() + i * 512, expected.data(), 512 * sizeof(float)), 0) << i;
    }
  }
}

// A step whose batch says so has computed the logits of its last rows; those of others are computed when asked for.
TEST(EngineSteps, LogitsThatABatchEndsInAreThereWithTheStep) {
  EngineConfig config = small_config();
  for (const char* device : {"cpu", "sim:64MiB/seed=1"}) {
    SCOPED_TRACE(device);
    config.device = device;
    const auto opened = open(model_path("qwen3moe"), config);
    ASSERT_NE(opened, nullptr);
    Engine& engine = *opened->engine;
    const std::vector<int32_t> ids = some_ids(5);
    std::vector<model::SequenceState> all;
    const auto compute = [&](bool ends_in_logits) -> Status {
      all.clear();
      for (int i = 0; i < 3; i++) all.push_back(engine.make_sequence().value());
      const model::BatchRows batch[] = {
          {.sequence = &all[0], .ids = std::span(ids).first(3), .ends_in_logits = ends_in_logits},
          {.sequence = &all[1], .ids = std::span(ids).last(1)},
          {.sequence = &all[2], .ids = std::span(ids).first(1), .ends_in_logits = ends_in_logits}};
      return engine.step(batch);
    };
    const auto replays_of = [&](const std::vector<int32_t>& rows, std::vector<float>& found) {
      const int64_t before = opened->stats.get(Counter::kGraphReplays);
      Result<std::vector<float>> result = logits(engine, rows);
      EXPECT_TRUE(result.ok());
      found = std::move(result).value();
      return opened->stats.get(Counter::kGraphReplays) - before;
    };
    ASSERT_TRUE(compute(false).ok());
    std::vector<float> expected, other, found;
    EXPECT_EQ(replays_of({4, 2}, expected), 1);
    EXPECT_EQ(replays_of({3}, other), 1);
    ASSERT_TRUE(compute(true).ok());
    EXPECT_EQ(replays_of({4, 2}, found), 0);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(replays_of({2}, found), 0);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.end() - 512, expected.end()));
    EXPECT_EQ(replays_of({3}, found), 1) << "nobody had said that this one would be asked for";
    EXPECT_EQ(found, other);
    EXPECT_EQ(replays_of({4, 2}, found), 1) << "the head has gone on to another row";
    EXPECT_EQ(found, expected);
  }
}

TEST(EngineSteps, MoreRowsThanTheHeadTakesAtOnceComeInTheirOrder) {
  EngineConfig config = small_config();
  config.chunk = 64;
  const auto opened = open(model_path("qwen3moe"), config);
  ASSERT_NE(opened, nullptr);
  Engine& engine = *opened->engine;
  auto sequence = engine.make_sequence();
  ASSERT_TRUE(sequence.ok());
  ASSERT_TRUE(step(engine, *sequence, some_ids(50)).ok());
  std::vector<int32_t> rows;
  for (int32_t i = 50; i-- > 0;) rows.push_back(i);
  const auto all = logits(engine, rows);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 50u * 512);
  for (size_t i = 0; i < rows.size(); i++) {
    const auto one = logits(engine, {rows[i]});
    ASSERT_TRUE(one.ok());
    EXPECT_EQ(std::memcmp(one->data(), all->data() + i * 512, 512 * sizeof(float)), 0) << rows[i];
  }
  // What the sink says ends the call.
  int calls = 0;
  const Status stopped = engine.logits(rows, [&](int64_t, std::span<const float>) -> Status {
    return ++calls == 3 ? Status(Error{ErrorCode::kCancelled, "enough"}) : Status();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 3);
}

// The plan of every step is made when the engine is opened; a second step of a shape allocates nothing. Reads past the
// page cache do: neither experts nor rows of an n-gram table are read that way here.
TEST(EngineSteps, AllocateNothing) {
  for (const char* arch : kArchs) {
    for (const bool graphs : {true, false}) {
      for (const engine::ExpertPlace place : {engine::ExpertPlace::kArena, engine::ExpertPlace::kMapped}) {
        SCOPED_TRACE(std::string(arch) + (graphs ? ", graphs" : ", no graphs"));
        EngineConfig config = small_config();
        config.use_graphs = graphs;
        config.experts = place;
        config.table = &model::kMappedTable;
        const auto opened = open(model_path(arch), config);
        ASSERT_NE(opened, nullptr);
        Engine& engine = *opened->engine;
        auto a = engine.make_sequence();
        auto b = engine.make_sequence();
        ASSERT_TRUE(a.ok() && b.ok());
        const std::vector<int32_t> ids = some_ids(16);
        const std::string before = engine.describe();
        float sum = 0;
        const Engine::LogitsSink sink = [&](int64_t, std::span<const float> row) -> Status {
          sum += row[0];
          return {};
        };
        const auto all_shapes = [&] {
          bool ok = true;
          for (const size_t n : {1u, 2u, 5u, 16u}) {
            const model::BatchRows one[] = {{&*a, std::span(ids).first(n)}};
            ok = ok && engine.step(one).ok();
            const int32_t rows[] = {0, static_cast<int32_t>(n) - 1};
            ok = ok && engine.logits(rows, sink).ok();
          }
          const model::BatchRows both[] = {{&*a, std::span(ids).first(1)}, {&*b, std::span(ids).first(3)}};
          return ok && engine.step(both).ok();
        };
        ASSERT_TRUE(all_shapes());
        const int64_t allocated = text::test::n_allocations();
        ASSERT_GT(allocated, 0);  // they are counted
        const bool ok = all_shapes();
        EXPECT_EQ(text::test::n_allocations(), allocated);
        ASSERT_TRUE(ok);
        EXPECT_EQ(engine.describe(), before);
      }
    }
  }
}

TEST(EngineOpen, DescribesWhatWasChosen) {
  EngineConfig config = small_config();
  config.isa = "scalar";
  config.experts = engine::ExpertPlace::kMapped;
  const auto mapped = open(model_path("qwen3next"), config);
  ASSERT_NE(mapped, nullptr);
  for (const char* piece :
       {"qwen3next", "4 layers", "8 experts", "2 used", "cpu", "scalar", "2 threads", "mapped", "context 64 tokens"}) {
    EXPECT_THAT(mapped->engine->describe(), HasSubstr(piece));
  }
  EXPECT_EQ(mapped->engine->describe().find('\n'), std::string::npos);
  config.experts = engine::ExpertPlace::kAuto;  // and there is room
  const auto arena = open(model_path("qwen3next"), config);
  ASSERT_NE(arena, nullptr);
  EXPECT_THAT(arena->engine->describe(), HasSubstr("arena"));
}

// Nothing is read before it is clear that the weights fit, and the message has the sizes.
TEST(EngineOpen, TooLittleRamForTheWeightsIsSaidBeforeAnythingIsLoaded) {
  struct Row {
    engine::ExpertPlace place;
    uint64_t ram_bytes;
    const char* advice;
  };
  const Row rows[] = {
      {engine::ExpertPlace::kArena, kMiB, "--ram-gib"},
      {engine::ExpertPlace::kMapped, kMiB, "--ram-gib"},
      {engine::ExpertPlace::kAuto, kMiB, "--ram-gib"},
      {engine::ExpertPlace::kArena, 12 * kMiB, "--experts resident"},  // enough for all but the experts
  };
  for (const Row& row : rows) {
    ManualClock clock;
    FaultyFileSystem files(real_file_system(), clock, {});
    const std::string path = std::string(STRATA_MODELS_DIR) + "/tales-moe-q4_k_m.gguf";
    const auto model = gguf::Model::open(path, files);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const uint64_t reads = files.n_reads();
    EngineConfig config = small_config();
    config.experts = row.place;
    config.ram_bytes = row.ram_bytes;
    Stats stats;
    const auto engine = Engine::open(**model, config, stats);
    ASSERT_FALSE(engine.ok());
    const std::string& message = engine.error().message;
    EXPECT_EQ(engine.error().code, ErrorCode::kNoMemory) << message;
    EXPECT_THAT(message, HasSubstr(path));
    EXPECT_THAT(message, HasSubstr("the " + format_bytes(row.ram_bytes) + " of RAM that may be used"));
    EXPECT_THAT(message, HasSubstr(row.advice));
    EXPECT_EQ(files.n_reads(), reads) << message;
  }
}

// The context counts as well, and is said as early.
TEST(EngineOpen, AContextThatDoesNotFitIsRefusedWithItsSize) {
  for (const char* arch : kArchs) {
    EngineConfig config = small_config();
    config.context = 1 << 20;
    config.ram_bytes = 64 * kMiB;
    ManualClock clock;
    FaultyFileSystem files(real_file_system(), clock, {});
    const auto model = gguf::Model::open(model_path(arch), files);
    ASSERT_TRUE(model.ok());
    const uint64_t reads = files.n_reads();
    Stats stats;
    const auto engine = Engine::open(**model, config, stats);
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().code, ErrorCode::kNoMemory);
    EXPECT_EQ(files.n_reads(), reads);
    EXPECT_THAT(engine.error().message, HasSubstr("context of 1048576 tokens"));
    EXPECT_THAT(engine.error().message, HasSubstr(format_bytes(64 * kMiB)));
    EXPECT_THAT(engine.error().message, HasSubstr("--ctx"));
  }
}

// A read that fails, whichever it is, fails the opening with the file's name; and then the next opening succeeds.
TEST(EngineOpen, AFailingReadIsReportedWhereverItHappens) {
  const std::string path = model_path("gpt-oss");
  ManualClock clock;
  uint64_t total = 0;
  {
    FaultyFileSystem files(real_file_system(), clock, {});
    ASSERT_NE(open(path, small_config(), files), nullptr);
    total = files.n_reads();
  }
  ASSERT_GT(total, 100u);
  for (uint64_t read = 0; read < total; read += read < 8 ? 1 : 13) {
    SCOPED_TRACE(read);
    FaultPlan plan;
    plan.at = {{read, Fault::kIoError}};
    FaultyFileSystem files(real_file_system(), clock, plan);
    Stats stats;
    const auto opened = [&]() -> Status {
      ASSIGN_OR_RETURN(const auto model, gguf::Model::open(path, files));
      ASSIGN_OR_RETURN(const auto engine, Engine::open(*model, small_config(), stats));
      return {};
    }();
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, ErrorCode::kIo);
    EXPECT_THAT(opened.error().message, HasSubstr(path));
    EXPECT_EQ(files.n_injected(Fault::kIoError), 1u);
    EXPECT_NE(open(path, small_config(), files), nullptr);
  }
}

// Short and interrupted reads are no failures.
TEST(EngineOpen, InterruptedAndShortReadsDoNotChangeTheResult) {
  const std::string path = model_path("qwen3next");
  const std::vector<int32_t> ids = some_ids(20);
  const auto intact = open(path, small_config());
  ASSERT_NE(intact, nullptr);
  ManualClock clock;
  FaultPlan plan;
  plan.probability[static_cast<size_t>(Fault::kShortRead)] = 0.3;
  plan.probability[static_cast<size_t>(Fault::kInterrupted)] = 0.3;
  plan.seed = 3;
  FaultyFileSystem files(real_file_system(), clock, plan);
  const auto faulty = open(path, small_config(), files);
  ASSERT_NE(faulty, nullptr);
  EXPECT_GT(files.n_injected(Fault::kShortRead), 50u);
  EXPECT_GT(files.n_injected(Fault::kInterrupted), 50u);
  EXPECT_EQ(last_logits(*faulty->engine, ids), last_logits(*intact->engine, ids));
}

// A file that is cut while its pages are in use: the step fails, its logits are never shown, the sequence has not
// moved, and the program goes on with other files.
TEST(EngineLostFile, EndsInAnErrorAndNoToken) {
  for (const char* arch : kArchs) {
    SCOPED_TRACE(arch);
    const TempDir dir;
    const std::string path = dir.file("m.gguf");
    std::filesystem::copy_file(model_path(arch), path);
    EngineConfig config = small_config();
    config.experts = engine::ExpertPlace::kMapped;
    const auto opened = open(path, config);
    ASSERT_NE(opened, nullptr);
    Engine& engine = *opened->engine;
    const std::vector<int32_t> ids = some_ids(4);
    auto sequence = engine.make_sequence();
    ASSERT_TRUE(sequence.ok());
    ASSERT_TRUE(step(engine, *sequence, ids).ok());
    const int64_t steps = opened->stats.get(Counter::kSteps);
    std::filesystem::resize_file(path, 4096);
    for (int i = 0; i < 2; i++) {  // it stays broken
      const Status status = step(engine, *sequence, ids);
      ASSERT_FALSE(status.ok());
      if (i == 0) {
        EXPECT_EQ(status.error().code, ErrorCode::kIo);
        EXPECT_THAT(status.error().message, HasSubstr(path));
        EXPECT_THAT(status.error().message, HasSubstr("cut"));
      }
      EXPECT_EQ(sequence->n_tokens(), 4);
      int published = 0;
      const int32_t rows[] = {0};
      EXPECT_FALSE(engine
                       .logits(rows,
                               [&](int64_t, std::span<const float>) -> Status {
                                 published++;
                                 return {};
                               })
                       .ok());
      EXPECT_EQ(published, 0);
    }
    EXPECT_EQ(opened->stats.get(Counter::kSteps), steps);

    const auto intact = open(model_path(arch), config);
    ASSERT_NE(intact, nullptr);
    config.experts = engine::ExpertPlace::kArena;
    const auto arena = open(model_path(arch), config);
    ASSERT_NE(arena, nullptr);
    EXPECT_EQ(last_logits(*intact->engine, ids), last_logits(*arena->engine, ids));
  }
}

}  // namespace
}  // namespace strata::test
