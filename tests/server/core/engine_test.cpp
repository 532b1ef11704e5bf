// Goal: over the real engine, whatever many clients do to a server, every answer that is finished is that of a lone
// request, and all that was taken is given back. The demo model; deterministic, temperature 0.
#include <dirent.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "server/core/engine_generator.h"
#include "server/core/routes.h"
#include "server/support/running.h"
#include "support/golden.h"

namespace strata::server {
namespace {

using test::get;
using test::post;
using test::Wire;

constexpr int kSlots = 4;

Result<LoadedModel> load(Stats& stats) {
  LoadedModel loaded;
  ASSIGN_OR_RETURN(loaded.file, gguf::Model::open(STRATA_MODELS_DIR "/tales-moe-q4_k_m.gguf", real_file_system()));
  ASSIGN_OR_RETURN(loaded.tokenizer, text::Tokenizer::load(*loaded.file));
  ASSIGN_OR_RETURN(loaded.chat_template, text::ChatTemplate::load(*loaded.file, *loaded.tokenizer));
  engine::EngineConfig config;
  config.context = 256;
  config.threads = 1;  // a machine that is busy makes each join of two slow
  config.chunk = 64;
  config.max_sequences = kSlots;
  config.deterministic = true;
  config.ram_bytes = kGiB;
  ASSIGN_OR_RETURN(loaded.engine, engine::Engine::open(*loaded.file, config, stats));
  loaded.served.id = "tales";
  loaded.served.tokenizer = loaded.tokenizer.get();
  loaded.served.chat_template = loaded.chat_template.get();
  loaded.served.context = loaded.engine->context();
  find_styles(loaded.served);
  return loaded;
}

class EngineServer {
 public:
  EngineServer() {
    ServerOptions options;
    options.address.port = 0;
    options.http.tick_ms = 10;
    options.http.max_pending_bytes = 4 << 10;
    options.http.send_buffer_bytes = 8 << 10;
    options.service.max_queue = 16;
    options.access.max_body_bytes = 64 << 10;
    auto listening = Server::listen(options);
    if (!listening.ok()) {
      ADD_FAILURE() << listening.error().message;
      return;
    }
    server = std::move(listening).value();
    EngineGeneratorOptions generator{.slots = kSlots, .max_gap_ms = 500,
                                     .load = [this](std::atomic<int64_t>&) { return loads++, load(stats); },
                                     .loaded = nullptr, .stopping = nullptr};
    server->serve(std::make_unique<EngineGenerator>(std::move(generator), stats), all_endpoints(), &stats);
    EXPECT_TRUE(soon([&] { return server->generator().phase() == GeneratorPhase::kReady; }));
  }

  test::WireAnswer ask(const std::string& request) {
    Wire wire(server->port());
    EXPECT_TRUE(wire.send(request));
    return wire.answer().value_or(test::WireAnswer{});
  }

  Stats stats;
  std::atomic<int> loads{0};
  std::unique_ptr<Server> server;
};

std::string completion(int which, int tokens, bool stream) {
  static const char* const kPrompts[] = {"Once upon a time", "The little bear", "One day, Lily", "In the forest"};
  return post("/v1/completions", std::string(R"({"model":"tales","temperature":0,"prompt":")") + kPrompts[which % 4] +
                                     "\",\"max_tokens\":" + std::to_string(tokens) +
                                     (stream ? ",\"stream\":true}" : "}"));
}

// The texts of an answer, put together, whether it is a stream or not.
std::string text_of(const std::string& body) {
  std::string text;
  const std::string mark = "\"text\":\"";
  for (size_t at = body.find(mark); at != std::string::npos; at = body.find(mark, at)) {
    at += mark.size();
    for (; at < body.size() && body[at] != '"'; at++) {
      if (body[at] == '\\') text += body[at++];
      text += body[at];
    }
  }
  return text;
}

int open_descriptors() {
  int n = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) n++;
  ::closedir(folder);
  return n;
}

TEST(EngineServer, CountsAndTellsTokens) {
  EngineServer running;
  const std::string tokens = running.ask(post("/tokenize", R"({"content":"Once upon a time"})")).body;
  EXPECT_TRUE(tokens.starts_with("{\"tokens\":[")) << tokens;
  const std::string text = running.ask(post("/detokenize", tokens)).body;
  EXPECT_EQ(text, R"({"content":"Once upon a time"})");
  EXPECT_EQ(running.ask(post("/detokenize", R"({"tokens":[-1]})")).status, 400);  // T07
  EXPECT_EQ(running.ask(post("/detokenize", R"({"tokens":[99999999]})")).status, 400);
  EXPECT_EQ(running.ask(post("/tokenize", R"({"content":7})")).status, 400);
  EXPECT_EQ(running.ask(post("/tokenize", "[]")).status, 400);
  const std::string prompt =
      running.ask(post("/apply-template", R"({"messages":[{"role":"user","content":"Hello bear"}]})")).body;
  EXPECT_NE(prompt.find("Hello bear"), std::string::npos) << prompt;
  EXPECT_EQ(running.ask(post("/apply-template", R"({"messages":[]})")).status, 400);
  const std::string props = running.ask(get("/props")).body;
  EXPECT_NE(props.find("\"n_ctx\":256"), std::string::npos) << props;
  EXPECT_EQ(props.find("/models/"), std::string::npos) << props;  // W07
  EXPECT_NE(running.ask(get("/metrics")).body.find("strata:tokens_forward_total"), std::string::npos);
}

// What one of many clients does, again and again.
struct ClientCounts {
  int finished = 0, wrong = 0, refused = 0;
};

ClientCounts misbehave(EngineServer& running, const std::vector<std::string>& lone, uint64_t seed, int rounds) {
  Random random(seed);
  ClientCounts counts;
  for (int round = 0; round < rounds; round++) {
    const int which = static_cast<int>(random.below(4));
    const bool stream = random.below(2) == 0;
    const uint64_t kind = random.below(8);
    Wire wire(running.server->port(), kind == 1 ? 2048 : 0);
    if (kind == 0) {  // too large
      counts.wrong += running.ask(post("/v1/completions", std::string(70'000, ' '))).status != 413;
    } else if (kind == 1) {  // does not read
      static_cast<void>(wire.send(completion(which, 200, true)));
      real_clock().sleep_ns(5'000'000);
    } else if (kind == 2) {  // leaves in the middle
      static_cast<void>(wire.send(completion(which, 200, stream)));
      real_clock().sleep_ns(static_cast<int64_t>(random.below(20'000'000)));
      wire.reset();
    } else if (kind == 3) {  // half a request
      static_cast<void>(wire.send(completion(which, 20, stream).substr(0, random.below(200) + 1)));
      wire.end_sending();
    } else {
      static_cast<void>(wire.send(completion(which, 24, stream)));
      const auto answer = wire.answer();
      if (!answer || (answer->status != 200 && answer->status != 429)) {
        counts.wrong++;
      } else if (answer->status == 429) {
        counts.refused++;
      } else {
        counts.finished++;
        counts.wrong += text_of(answer->body) != lone[static_cast<size_t>(which)];
      }
    }
  }
  return counts;
}

TEST(EngineServer, GivesLoneAnswersToManyClients) {
  EngineServer running;
  std::vector<std::string> lone;
  for (int which = 0; which < 4; which++) {
    lone.push_back(text_of(running.ask(completion(which, 24, false)).body));
    ASSERT_GT(lone.back().size(), 20u);
    EXPECT_EQ(text_of(running.ask(completion(which, 24, true)).body), lone.back());
  }
  EXPECT_NE(lone[0], lone[1]);  // the comparison can fail
  ASSERT_TRUE(soon([&] { return running.server->connections() == 0; }));
  const int descriptors = open_descriptors();
  std::vector<ClientCounts> counts(24);
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t i = 0; i < counts.size(); i++) {
      threads.push_back(std::make_unique<Thread>([&, i] { counts[i] = misbehave(running, lone, 100 + i, 6); }));
    }
  }
  int finished = 0;
  for (const ClientCounts& each : counts) {
    EXPECT_EQ(each.wrong, 0);
    finished += each.finished;
  }
  EXPECT_GT(finished, 20);
  EXPECT_TRUE(soon([&] { return running.server->under_way() == 0; }));
  EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(running.stats.get(Counter::kKvBlocksUsed), 0);
  EXPECT_EQ(running.loads, 1);  // A08: however many ask for the model at once
  EXPECT_EQ(text_of(running.ask(completion(0, 24, false)).body), lone[0]);
}

TEST(EngineServer, SaysWhyAModelIsNotLoaded) {
  Stats stats;
  EngineGeneratorOptions options;
  std::atomic<bool> told{false};
  options.load = [](std::atomic<int64_t>&) -> Result<LoadedModel> {
    return Error{ErrorCode::kNoMemory, "it does not fit"};
  };
  options.loaded = [&] { told.store(true); };
  const EngineGenerator generator(std::move(options), stats);
  ASSERT_TRUE(soon([&] { return told.load(); }));
  EXPECT_EQ(generator.phase(), GeneratorPhase::kFailed);
  EXPECT_EQ(generator.failure().message, "it does not fit");
  EXPECT_EQ(generator.model(), nullptr);
}

// W07: why, people learn from the program.
TEST(EngineServer, DoesNotTellClientsWhyAModelIsNotLoaded) {
  ServerOptions options;
  options.address.port = 0;
  const std::unique_ptr<Server> server = Server::listen(options).value();
  Stats stats;
  EngineGeneratorOptions generator;
  generator.load = [](std::atomic<int64_t>&) -> Result<LoadedModel> {
    return Error{ErrorCode::kNotFound, "no such file: /secret/model.gguf"};
  };
  server->serve(std::make_unique<EngineGenerator>(std::move(generator), stats), all_endpoints(), &stats);
  ASSERT_TRUE(soon([&] { return server->generator().phase() == GeneratorPhase::kFailed; }));
  const auto body_of = [&](const std::string& request, int status) {
    Wire wire(server->port());
    EXPECT_TRUE(wire.send(request));
    const auto answer = wire.answer().value_or(test::WireAnswer{});
    EXPECT_EQ(answer.status, status) << request;
    EXPECT_EQ(answer.body.find("secret"), std::string::npos) << answer.body;
    return answer.body;
  };
  EXPECT_EQ(body_of(get("/health"), 503), "{\"status\":\"failed\"}\n");
  static_cast<void>(body_of(get("/props"), 200));
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/tokenize"}) {
    EXPECT_NE(body_of(post(path, "{}"), 503).find("the model could not be loaded"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace strata::server
