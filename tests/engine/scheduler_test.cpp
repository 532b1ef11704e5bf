// Goal: requests that share steps get the answers they would get alone, end where they should, and give everything back
// however they end. Conversations compute only what is new.
#include "engine/scheduler.h"

#include <algorithm>
#include <atomic>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/golden.h"

namespace strata::engine {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;

EngineConfig small_config() {
  EngineConfig config;
  config.context = 64;
  config.threads = 2;
  config.chunk = 16;
  config.max_sequences = 3;
  config.max_checkpoints = 4;
  config.deterministic = true;
  config.ram_bytes = kGiB;
  return config;
}

// Ids in 0 to 255: tokens of text, never one that ends an answer.
Ids some_ids(int n, int seed) {
  Ids ids;
  for (int i = 0; i < n; i++) ids.push_back((i * 37 + seed * 11) % 256);
  return ids;
}

// Everything that was heard of a request, in order.
class Recorder final : public RequestListener {
 public:
  void on_token(int32_t id, const text::Logprobs* logprobs) override {
    tokens.push_back(id);
    events += 't';
    if (logprobs != nullptr) chosen.push_back(logprobs->chosen);
    if (hook) hook(*this);
  }
  void on_text(std::string_view part) override {
    text += part;
    events += 'x';
  }
  void on_prompt(int64_t done, int64_t total) override {
    prompt_done = done, prompt_total = total;
    events += 'p';
    if (hook) hook(*this);
  }
  void on_finish(const RequestResult& r) override {
    result = r;
    n_finished++;
    events += 'f';
  }

  Ids tokens;
  std::vector<text::TokenLogprob> chosen;
  std::string text, events;
  RequestResult result;
  int64_t prompt_done = 0, prompt_total = 0;
  int n_finished = 0;
  std::function<void(Recorder&)> hook;
};

RequestParams greedy(int64_t n) {
  RequestParams params;
  params.sampling.temp = 0;
  params.max_tokens = n;
  params.ignore_eos = true;
  params.repeat_stop_tokens = 0;
  return params;
}

RequestParams seeded(int64_t n, uint32_t seed) {
  RequestParams params = greedy(n);
  params.sampling.temp = 1.5f;
  params.sampling.seed = seed;
  return params;
}

class Fixture {
 public:
  explicit Fixture(const EngineConfig& config = small_config(), const std::string& arch = "qwen3moe",
                   const SchedulerOptions& options = {}, FileSystem& files = real_file_system()) {
    const std::string path = test::golden_path("arch/" + arch + "/model-bf16.gguf");
    model_ = gguf::Model::open(path, files).value();
    tokenizer_ = text::Tokenizer::load(*model_).value();
    engine_ = Engine::open(*model_, config, stats_).value();
    scheduler_.emplace(*engine_, *tokenizer_, options, real_clock());
  }

  Result<std::shared_ptr<RequestHandle>> submit(Recorder& recorder, const Ids& prompt, const RequestParams& params,
                                                Conversation* conversation = nullptr) {
    return scheduler_->submit(conversation, prompt, params, recorder);
  }
  // Bounded, so that a request that never ends fails a test.
  void run() {
    for (int i = 0; i < 2000; i++) {
      if (!scheduler_->step()) return;
    }
    FAIL() << "the scheduler never has nothing to do";
  }
  // A request by itself, to its end.
  Recorder alone(const Ids& prompt, const RequestParams& params, Conversation* conversation = nullptr) {
    Recorder recorder;
    const auto handle = submit(recorder, prompt, params, conversation);
    EXPECT_TRUE(handle.ok()) << handle.error().message;
    run();
    EXPECT_EQ(recorder.n_finished, 1);
    return recorder;
  }
  // Whether all sequences are free and no block is held.
  void expect_all_given_back(int n_sequences = 3) {
    EXPECT_EQ(stats_.get(Counter::kKvBlocksUsed), 0);
    std::vector<model::SequenceState> all;
    for (int i = 0; i < n_sequences; i++) {
      auto sequence = engine_->make_sequence();
      ASSERT_TRUE(sequence.ok()) << i;
      all.push_back(std::move(*sequence));
    }
    EXPECT_FALSE(engine_->make_sequence().ok());
  }

  Scheduler& scheduler() { return *scheduler_; }
  Engine& engine() { return *engine_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const Stats& stats() const { return stats_; }

 private:
  Stats stats_;
  std::unique_ptr<gguf::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::optional<Scheduler> scheduler_;
};

TEST(Scheduler, ABatchGivesEveryRequestTheAnswerItGetsAlone) {
  for (const char* arch : {"qwen3moe", "gpt-oss", "qwen3next"}) {
    SCOPED_TRACE(arch);
    Fixture fixture(small_config(), arch);
    std::vector<Ids> prompts;
    std::vector<RequestParams> params;
    for (int i = 0; i < 7; i++) {  // more than there are sequences, prompts shorter and longer than a chunk
      prompts.push_back(some_ids(1 + i * 7, i));
      params.push_back(i % 2 == 0 ? greedy(4 + i) : seeded(4 + i, static_cast<uint32_t>(i)));
    }
    std::vector<Recorder> expected;
    for (size_t i = 0; i < prompts.size(); i++) expected.push_back(fixture.alone(prompts[i], params[i]));
    std::vector<Recorder> batched(prompts.size());
    for (size_t i = 0; i < prompts.size(); i++) ASSERT_TRUE(fixture.submit(batched[i], prompts[i], params[i]).ok());
    fixture.run();
    for (size_t i = 0; i < prompts.size(); i++) {
      SCOPED_TRACE(i);
      EXPECT_EQ(batched[i].tokens, expected[i].tokens);
      EXPECT_EQ(batched[i].text, expected[i].text);
      EXPECT_EQ(batched[i].result.finish, Finish::kMaxTokens);
      EXPECT_EQ(batched[i].result.answer_tokens, 4 + static_cast<int64_t>(i));
    }
    EXPECT_NE(expected[0].tokens, expected[2].tokens) << "all prompts are continued alike: nothing was shown";
    fixture.expect_all_given_back();
  }
}

TEST(Scheduler, ListenersHearPromptTokensTextAndTheEndInThisOrder) {
  Fixture fixture;
  RequestParams params = greedy(5);
  params.n_logprobs = 2;
  const Recorder r = fixture.alone(some_ids(40, 1), params);
  EXPECT_EQ(r.events.find_first_not_of('p'), 3u) << "40 tokens in chunks of 16";
  EXPECT_EQ(r.events.find('f'), r.events.size() - 1);
  EXPECT_EQ(std::count(r.events.begin(), r.events.end(), 't'), 5);
  EXPECT_EQ(r.events.rfind('p'), 2u);
  EXPECT_EQ(r.prompt_done, 40);
  EXPECT_EQ(r.prompt_total, 40);
  ASSERT_EQ(r.chosen.size(), 5u);
  for (size_t i = 0; i < 5; i++) EXPECT_EQ(r.chosen[i].id, r.tokens[i]);
  EXPECT_EQ(r.result.prompt_tokens, 40);
  EXPECT_EQ(r.result.answer_tokens, 5);
  EXPECT_EQ(r.result.kept_tokens, 0);
  EXPECT_GT(r.result.prompt_ns, 0);
  EXPECT_GT(r.result.answer_ns, 0);
}

TEST(Scheduler, NoTokenAndOneToken) {
  Fixture fixture;
  const Recorder none = fixture.alone(some_ids(5, 1), greedy(0));
  EXPECT_EQ(none.events, "pf");
  EXPECT_EQ(none.result.finish, Finish::kMaxTokens);
  const int64_t steps = fixture.stats().get(Counter::kSteps);
  const Recorder one = fixture.alone(some_ids(5, 1), greedy(1));
  EXPECT_EQ(one.tokens.size(), 1u);
  EXPECT_EQ(one.result.finish, Finish::kMaxTokens);
  EXPECT_EQ(fixture.stats().get(Counter::kSteps), steps + 1) << "the last token needs no step";
}

TEST(Scheduler, TokensDoNotDependOnHowThePromptIsCut) {
  const Ids expected = Fixture().alone(some_ids(20, 3), greedy(6)).tokens;
  for (const int chunk : {1, 3, 19, 20, 21}) {
    EngineConfig config = small_config();
    config.chunk = chunk;
    config.max_sequences = 1;
    EXPECT_EQ(Fixture(config).alone(some_ids(20, 3), greedy(6)).tokens, expected) << chunk;
  }
}

// A11: between two chunks of a long prompt, an answer that runs gets its token.
TEST(Scheduler, ALongPromptDoesNotStarveAnAnswer) {
  for (const char* arch : {"qwen3moe", "qwen3next"}) {
    EngineConfig config = small_config();
    config.chunk = 6;  // five rows of the prompt, and the answer's
    Fixture fixture(config, arch);
    Recorder answer, prompt;
    ASSERT_TRUE(fixture.submit(answer, some_ids(4, 1), greedy(40)).ok());
    while (answer.tokens.size() < 2) ASSERT_TRUE(fixture.scheduler().step());
    std::vector<size_t> seen;  // tokens of the answer at each chunk
    prompt.hook = [&](Recorder& self) {
      if (self.events.back() == 'p') seen.push_back(answer.tokens.size());
    };
    ASSERT_TRUE(fixture.submit(prompt, some_ids(50, 2), greedy(2)).ok());
    fixture.run();
    ASSERT_GE(seen.size(), 10u) << arch;
    for (size_t i = 1; i < seen.size(); i++) EXPECT_EQ(seen[i], seen[i - 1] + 1) << arch << ", chunk " << i;
    EXPECT_EQ(answer.tokens, Fixture(small_config(), arch).alone(some_ids(4, 1), greedy(40)).tokens) << arch;
  }
}

// X04: nothing is shifted, also where that could not be done.
TEST(Scheduler, AFullContextEndsTheAnswerOfARecurrentModel) {
  Fixture fixture(small_config(), "qwen3next");
  RequestParams endless = greedy(0);
  endless.max_tokens.reset();
  const Recorder r = fixture.alone(some_ids(60, 1), endless);
  EXPECT_EQ(r.result.finish, Finish::kContextFull);
  EXPECT_EQ(r.tokens.size(), 5u);
  Recorder refused;
  EXPECT_FALSE(fixture.submit(refused, some_ids(65, 1), endless).ok());
  EXPECT_EQ(fixture.alone(some_ids(60, 1), greedy(4)).tokens, Ids(r.tokens.begin(), r.tokens.begin() + 4));
  fixture.expect_all_given_back();
}

// X07
TEST(Scheduler, AFullContextEndsTheAnswer) {
  Fixture fixture;
  const Ids expected = fixture.alone(some_ids(60, 1), greedy(4)).tokens;
  RequestParams endless = greedy(0);
  endless.max_tokens.reset();
  const Recorder r = fixture.alone(some_ids(60, 1), endless);
  EXPECT_EQ(r.result.finish, Finish::kContextFull);
  EXPECT_EQ(r.tokens.size(), 5u) << "the last token needs no room";
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), r.tokens.begin()));
  const Recorder full = fixture.alone(some_ids(64, 1), endless);
  EXPECT_EQ(full.result.finish, Finish::kContextFull);
  EXPECT_EQ(full.tokens.size(), 1u);
  fixture.expect_all_given_back();
}

TEST(Scheduler, StopStringsAreCutOff) {
  Fixture fixture;
  const std::string whole = fixture.alone(some_ids(9, 2), greedy(20)).text;
  ASSERT_GT(whole.size(), 8u);
  // One that is found inside the text, and one that the text only begins with at its end.
  RequestParams params = greedy(20);
  size_t at = whole.size() / 2;
  while ((static_cast<unsigned char>(whole[at]) & 0xC0) == 0x80) at++;
  size_t end = at + 1;
  while (end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) end++;
  params.stops = {whole.substr(at, end - at)};
  const Recorder stopped = fixture.alone(some_ids(9, 2), params);
  EXPECT_EQ(stopped.result.finish, Finish::kStopString);
  EXPECT_EQ(stopped.result.stop, std::optional<size_t>(0));
  EXPECT_EQ(stopped.text, whole.substr(0, whole.find(params.stops[0])));

  size_t last = whole.size() - 1;
  while ((static_cast<unsigned char>(whole[last]) & 0xC0) == 0x80) last--;
  params.stops = {whole.substr(last) + "never"};
  const Recorder held = fixture.alone(some_ids(9, 2), params);
  EXPECT_EQ(held.result.finish, Finish::kMaxTokens);
  EXPECT_EQ(held.result.stop, std::nullopt);
  EXPECT_EQ(held.text, whole) << "what was held back belongs to the answer";
}

// Says "ABC" from the third token on, and hears of all.
class Saying final : public TokenGuide {
 public:
  explicit Saying(Ids& heard) : heard_(heard) {}
  int32_t next() override {
    const size_t n = heard_.size();
    return n >= 2 && n < 5 ? static_cast<int32_t>(63 + n) : text::kNoToken;
  }
  void accept(int32_t id) override { heard_.push_back(id); }

 private:
  Ids& heard_;
};

TEST(Scheduler, AGuideDecidesWhereItHasSomethingToSay) {
  Fixture fixture;
  const Recorder free = fixture.alone(some_ids(9, 2), greedy(7));
  Ids heard;
  RequestParams params = greedy(7);
  params.make_guide = [&] { return std::make_unique<Saying>(heard); };
  const Recorder guided = fixture.alone(some_ids(9, 2), params);
  EXPECT_EQ(guided.tokens, heard);
  ASSERT_EQ(guided.tokens.size(), 7u);
  EXPECT_EQ(Ids(guided.tokens.begin(), guided.tokens.begin() + 2), Ids(free.tokens.begin(), free.tokens.begin() + 2));
  EXPECT_EQ(Ids(guided.tokens.begin() + 2, guided.tokens.begin() + 5), (Ids{65, 66, 67}));
  // What it said is what the model goes on from.
  Ids prompt = some_ids(9, 2);
  prompt.insert(prompt.end(), guided.tokens.begin(), guided.tokens.begin() + 5);
  EXPECT_EQ(fixture.alone(prompt, greedy(1)).tokens[0], guided.tokens[5]);
}

TEST(Scheduler, ControlTokensAreShownWhereAskedFor) {
  Fixture fixture;
  int32_t control = -1;
  for (int32_t id = 0; id < fixture.tokenizer().vocab_size() && control < 0; id++) {
    const bool ends = fixture.tokenizer().is_end_of_generation(id);
    if (!ends && fixture.tokenizer().token_type(id) == text::TokenType::kControl) control = id;
  }
  ASSERT_GE(control, 0);
  RequestParams params = greedy(2);
  params.sampling.logit_bias = {{control, 1000}};
  EXPECT_EQ(fixture.alone(some_ids(5, 1), params).text, "");
  params.shown_tokens = {control - 1, control, control + 1};
  const std::string text = fixture.tokenizer().piece(control, true);
  EXPECT_EQ(fixture.alone(some_ids(5, 1), params).text, text + text);
}

// R11: the first token is a stop, and log-probabilities are asked for.
TEST(Scheduler, AStopStringThatIsTheFirstTokenLeavesAnEmptyText) {
  Fixture fixture;
  RequestParams params = greedy(5);
  params.sampling.logit_bias = {{65, 1000}};
  params.n_logprobs = 10;
  params.stops = {fixture.tokenizer().piece(65, false)};
  const Recorder r = fixture.alone(some_ids(5, 1), params);
  EXPECT_EQ(r.result.finish, Finish::kStopString);
  EXPECT_EQ(r.text, "");
  EXPECT_EQ(r.events, "ptf") << "no text is given out";
  EXPECT_EQ(r.chosen.size(), r.tokens.size());
}

TEST(Scheduler, EndsWithTheModelsTokenUnlessIgnored) {
  Fixture fixture;
  int32_t end = -1;
  for (int32_t id = 0; id < fixture.tokenizer().vocab_size() && end < 0; id++) {
    if (fixture.tokenizer().is_end_of_generation(id)) end = id;
  }
  ASSERT_GE(end, 0);
  RequestParams params = greedy(10);
  params.sampling.logit_bias = {{end, 1000}};
  EXPECT_EQ(fixture.alone(some_ids(5, 1), params).result.finish, Finish::kMaxTokens);
  params.ignore_eos = false;
  const Recorder r = fixture.alone(some_ids(5, 1), params);
  EXPECT_EQ(r.result.finish, Finish::kEndOfText);
  EXPECT_TRUE(r.tokens.empty());
  EXPECT_EQ(r.text, "");
}

// R10
TEST(Scheduler, ATokenThatRepeatsEndsTheAnswer) {
  Fixture fixture;
  RequestParams params = greedy(50);
  params.sampling.logit_bias = {{65, 1000}};
  params.repeat_stop_tokens = 7;
  const Recorder r = fixture.alone(some_ids(5, 1), params);
  EXPECT_EQ(r.result.finish, Finish::kRepetition);
  EXPECT_EQ(r.tokens, Ids(7, 65));
}

TEST(Scheduler, RefusesWhatCannotBe) {
  Fixture fixture;
  Recorder r;
  const auto refused = [&](const Ids& prompt, const RequestParams& params) {
    const auto handle = fixture.submit(r, prompt, params);
    EXPECT_FALSE(handle.ok());
    EXPECT_EQ(handle.error().code, ErrorCode::kBadInput);
    return handle.error().message;
  };
  EXPECT_THAT(refused({}, greedy(1)), HasSubstr("empty"));
  EXPECT_THAT(refused(some_ids(65, 1), greedy(1)), HasSubstr("65 tokens, but the context has room for 64"));
  EXPECT_THAT(refused({1, 512}, greedy(1)), HasSubstr("512"));
  EXPECT_THAT(refused({-1}, greedy(1)), HasSubstr("-1"));
  RequestParams wrong = greedy(1);
  wrong.sampling.repeat_penalty = 0;
  refused({1}, wrong);
  RequestParams stops = greedy(1);
  stops.stops = {"\xFF"};
  refused({1}, stops);
  EXPECT_FALSE(fixture.scheduler().step());
  EXPECT_EQ(r.events, "") << "nobody hears of what was refused";
}

TEST(Scheduler, OnlySoManyWait) {
  Fixture fixture(small_config(), "qwen3moe", {.max_gap_ms = 500, .max_queued = 2});
  std::vector<Recorder> r(4);
  ASSERT_TRUE(fixture.submit(r[0], {1}, greedy(2)).ok());
  ASSERT_TRUE(fixture.submit(r[1], {1}, greedy(2)).ok());
  const auto third = fixture.submit(r[2], {1}, greedy(2));
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(third.error().message, HasSubstr("2 requests"));
  fixture.run();
  EXPECT_TRUE(fixture.submit(r[3], {1}, greedy(2)).ok()) << "there is room again";
  fixture.run();
  EXPECT_EQ(r[3].result.finish, Finish::kMaxTokens);
}

TEST(Scheduler, CancelledWhileItWaitsNeverStartsAndIsHeardOf) {
  Fixture fixture;
  std::vector<Recorder> running(3);
  for (Recorder& r : running) ASSERT_TRUE(fixture.submit(r, some_ids(4, 1), greedy(10)).ok());
  ASSERT_TRUE(fixture.scheduler().step());
  Recorder first, second, last;
  const auto first_handle = fixture.submit(first, some_ids(4, 2), greedy(3));
  const auto handle = fixture.submit(second, some_ids(4, 3), greedy(3));
  ASSERT_TRUE(fixture.submit(last, some_ids(4, 4), greedy(3)).ok());
  ASSERT_TRUE(first_handle.ok() && handle.ok());
  ASSERT_TRUE(fixture.scheduler().step());
  (*handle)->cancel();  // it waits behind another
  ASSERT_TRUE(fixture.scheduler().step());
  EXPECT_EQ(second.events, "f");
  EXPECT_EQ(second.result.finish, Finish::kCancelled);
  (*first_handle)->cancel();  // the next one to start
  ASSERT_TRUE(fixture.scheduler().step());
  EXPECT_EQ(first.events, "f");
  fixture.run();
  for (const Recorder& r : running) EXPECT_EQ(r.result.finish, Finish::kMaxTokens);
  EXPECT_EQ(last.result.finish, Finish::kMaxTokens);
  EXPECT_EQ(second.n_finished, 1);
  fixture.expect_all_given_back();
}

TEST(Scheduler, CancelledBetweenChunksOfItsPromptItEndsBeforeTheNext) {
  Fixture fixture;
  Recorder r;
  std::shared_ptr<RequestHandle> handle;
  r.hook = [&](Recorder& self) {
    if (self.prompt_done == 32) handle->cancel();
  };
  handle = fixture.submit(r, some_ids(60, 1), greedy(5)).value();
  fixture.run();
  EXPECT_EQ(r.events, "ppf");
  EXPECT_EQ(r.result.finish, Finish::kCancelled);
  EXPECT_EQ(fixture.stats().get(Counter::kTokensForward), 32);
  fixture.expect_all_given_back();
}

TEST(Scheduler, CancelledWithinAStepItEndsWithoutTheRest) {
  for (const char* arch : {"qwen3moe", "qwen3next"}) {
    SCOPED_TRACE(arch);
    Fixture fixture(small_config(), arch);
    const Ids expected = fixture.alone(some_ids(10, 1), greedy(4)).tokens;
    Recorder r;
    const auto handle = fixture.submit(r, some_ids(10, 1), greedy(4));
    ASSERT_TRUE(handle.ok());
    // The scheduler's own question, but someone cancels while the second layer is due.
    int n_asked = 0;
    fixture.engine().set_interrupt([&] {
      if (++n_asked == 2) (*handle)->cancel();
      return (*handle)->cancelled();
    });
    fixture.run();
    EXPECT_GE(n_asked, 2);
    EXPECT_EQ(r.events, "f");
    EXPECT_EQ(r.result.finish, Finish::kCancelled);
    fixture.engine().set_interrupt(nullptr);
    EXPECT_EQ(fixture.alone(some_ids(10, 1), greedy(4)).tokens, expected) << "the next one is as if nothing had been";
    fixture.expect_all_given_back();
  }
}

TEST(Scheduler, CancelledInItsAnswerItEndsWithWhatWasSaid) {
  Fixture fixture;
  const Recorder whole = fixture.alone(some_ids(10, 1), greedy(20));
  const Recorder neighbour = fixture.alone(some_ids(12, 2), greedy(20));
  Recorder r, other;
  std::shared_ptr<RequestHandle> handle;
  r.hook = [&](Recorder& self) {
    if (self.tokens.size() == 3) handle->cancel();
  };
  handle = fixture.submit(r, some_ids(10, 1), greedy(20)).value();
  ASSERT_TRUE(fixture.submit(other, some_ids(12, 2), greedy(20)).ok());
  fixture.run();
  EXPECT_EQ(r.result.finish, Finish::kCancelled);
  EXPECT_EQ(r.tokens, Ids(whole.tokens.begin(), whole.tokens.begin() + 3));
  EXPECT_EQ(r.result.answer_tokens, 3);
  EXPECT_EQ(other.tokens, neighbour.tokens) << "its neighbour goes on";
  fixture.expect_all_given_back();
}

// T07: the sampler has no token to give.
TEST(Scheduler, ATokenThatCannotBeSampledEndsItsRequestAlone) {
  Fixture fixture;
  const Ids expected = fixture.alone(some_ids(6, 1), greedy(5)).tokens;
  RequestParams impossible = greedy(5);
  for (int32_t id = 0; id < 512; id++) impossible.sampling.suppress.push_back(id);
  Recorder bad, good;
  ASSERT_TRUE(fixture.submit(bad, some_ids(6, 2), impossible).ok());
  ASSERT_TRUE(fixture.submit(good, some_ids(6, 1), greedy(5)).ok());
  fixture.run();
  EXPECT_EQ(bad.result.finish, Finish::kFailed);
  EXPECT_FALSE(bad.result.error.ok());
  EXPECT_EQ(good.tokens, expected);
  fixture.expect_all_given_back();
}

TEST(Scheduler, AFailingStepEndsThoseInItAndNoOthers) {
  for (const char* arch : {"qwen3moe", "qwen3next"}) {
    SCOPED_TRACE(arch);
    Fixture fixture(small_config(), arch);
    const Ids expected = fixture.alone(some_ids(6, 1), greedy(5)).tokens;
    bool fail = false;
    fixture.engine().set_interrupt([&] { return fail; });  // the engine fails, and no one has cancelled
    std::vector<Recorder> r(4);
    for (Recorder& each : r) ASSERT_TRUE(fixture.submit(each, some_ids(6, 1), greedy(5)).ok());
    ASSERT_TRUE(fixture.scheduler().step());
    fail = true;
    ASSERT_TRUE(fixture.scheduler().step());
    fail = false;
    for (size_t i = 0; i < 3; i++) {
      EXPECT_EQ(r[i].result.finish, Finish::kFailed);
      EXPECT_FALSE(r[i].result.error.ok());
      EXPECT_EQ(r[i].n_finished, 1);
    }
    fixture.run();
    EXPECT_EQ(r[3].tokens, expected) << "it waited for a sequence, and got one";
    fixture.expect_all_given_back();
  }
}

// Conversations hold all sequences, and nothing runs that would give one back.
TEST(Scheduler, WaitsWithoutSpinningForSequencesThatOthersHold) {
  Fixture fixture;
  const Ids expected = fixture.alone(some_ids(6, 1), greedy(5)).tokens;
  std::vector<Conversation> held;
  for (int i = 0; i < 3; i++) held.push_back(Conversation::create(fixture.engine()).value());
  Recorder first, second, gone;
  ASSERT_TRUE(fixture.submit(first, some_ids(6, 1), greedy(5)).ok());
  const auto handle = fixture.submit(gone, some_ids(6, 2), greedy(5));
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(fixture.submit(second, some_ids(6, 1), greedy(5)).ok());
  EXPECT_FALSE(fixture.scheduler().step());
  EXPECT_EQ(first.events + second.events, "");

  // A request of a conversation has its sequence: it does not wait behind them.
  EXPECT_EQ(fixture.alone(some_ids(6, 1), greedy(5), &held[1]).tokens, expected);
  EXPECT_EQ(first.events + second.events, "");
  (*handle)->cancel();
  fixture.run();
  EXPECT_EQ(gone.events, "f");

  held.pop_back();
  fixture.run();
  EXPECT_EQ(first.tokens, expected);
  EXPECT_EQ(second.tokens, expected);
  held.clear();
  fixture.expect_all_given_back();
}

// Files whose mappings say that they have lost bytes, when they are told to: what a mapped expert source reports in the
// middle of a step.
class LossyFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path) override {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, real_file_system().open(path));
    return std::unique_ptr<File>(std::make_unique<LossyFile>(std::move(file), lost));
  }
  bool exists(const std::string& path) override { return real_file_system().exists(path); }
  bool is_directory(const std::string& path) override { return real_file_system().is_directory(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return real_file_system().list(path); }

  std::atomic<bool> lost{false};

 private:
  class LossyMapping final : public Mapping {
   public:
    LossyMapping(std::unique_ptr<Mapping> inner, const std::atomic<bool>& lost)
        : inner_(std::move(inner)), lost_(lost) {}
    std::span<const std::byte> bytes() const override { return inner_->bytes(); }
    bool failed() const override { return lost_; }

   private:
    std::unique_ptr<Mapping> inner_;
    const std::atomic<bool>& lost_;
  };
  class LossyFile final : public File {
   public:
    LossyFile(std::unique_ptr<File> inner, const std::atomic<bool>& lost) : inner_(std::move(inner)), lost_(lost) {}
    const std::string& path() const override { return inner_->path(); }
    uint64_t size() const override { return inner_->size(); }
    Result<size_t> read_some(uint64_t offset, std::span<std::byte> dst) override {
      return inner_->read_some(offset, dst);
    }
    Result<std::unique_ptr<Mapping>> map() override {
      ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping, inner_->map());
      return std::unique_ptr<Mapping>(std::make_unique<LossyMapping>(std::move(mapping), lost_));
    }

   private:
    std::unique_ptr<File> inner_;
    const std::atomic<bool>& lost_;
  };
};

TEST(Scheduler, AnExpertSourceThatFailsEndsTheRequestsOfItsStep) {
  for (const char* arch : {"qwen3moe", "qwen3next"}) {
    SCOPED_TRACE(arch);
    LossyFileSystem files;
    EngineConfig config = small_config();
    config.experts = ExpertPlace::kMapped;
    Fixture fixture(config, arch, {}, files);
    const Ids expected = fixture.alone(some_ids(20, 1), greedy(8)).tokens;
    // In the prompt, and in the answer.
    for (const size_t n_tokens : {size_t{0}, size_t{3}}) {
      SCOPED_TRACE(n_tokens);
      std::vector<Recorder> r(2);
      r[0].hook = [&](Recorder& self) { files.lost = self.tokens.size() == n_tokens; };
      for (Recorder& each : r) ASSERT_TRUE(fixture.submit(each, some_ids(20, 1), greedy(8)).ok());
      fixture.run();
      files.lost = false;
      for (const Recorder& each : r) {
        EXPECT_EQ(each.n_finished, 1);
        EXPECT_EQ(each.result.finish, Finish::kFailed);
        ASSERT_FALSE(each.result.error.ok());
        EXPECT_EQ(each.result.error.error().code, ErrorCode::kIo);
        EXPECT_THAT(each.result.error.error().message, HasSubstr("model-bf16.gguf"));
        ASSERT_LE(each.tokens.size(), n_tokens);
        EXPECT_TRUE(std::equal(each.tokens.begin(), each.tokens.end(), expected.begin()));
      }
      EXPECT_EQ(r[0].tokens.size(), n_tokens);
      fixture.expect_all_given_back();
      EXPECT_EQ(fixture.alone(some_ids(20, 1), greedy(8)).tokens, expected);
    }
  }
}

class ConversationTest : public testing::TestWithParam<const char*> {};

// Turns of a chat: each prompt is the last one, its answer, and something new.
TEST_P(ConversationTest, ComputesOnlyWhatIsNewAndAnswersTheSame) {
  Fixture fixture(small_config(), GetParam());
  Result<Conversation> conversation = Conversation::create(fixture.engine());
  ASSERT_TRUE(conversation.ok());
  Ids prompt = some_ids(9, 1);
  for (int turn = 0; turn < 3; turn++) {
    SCOPED_TRACE(turn);
    const Recorder fresh = fixture.alone(prompt, seeded(6, 5));
    const int64_t before = fixture.stats().get(Counter::kTokensForward);
    const Recorder kept = fixture.alone(prompt, seeded(6, 5), &*conversation);
    EXPECT_EQ(kept.tokens, fresh.tokens);
    EXPECT_EQ(kept.result.kept_tokens, turn == 0 ? 0 : static_cast<int64_t>(prompt.size()) - 5)
        << "the last token of the answer and four new ones are left";
    const int64_t computed = static_cast<int64_t>(prompt.size()) - kept.result.kept_tokens + 5;
    EXPECT_EQ(fixture.stats().get(Counter::kTokensForward) - before, computed);
    prompt.insert(prompt.end(), kept.tokens.begin(), kept.tokens.end());
    for (const int32_t id : some_ids(4, turn + 7)) prompt.push_back(id);
  }
}

// The same prompt again, and one whose end has changed.
TEST_P(ConversationTest, GoesBackAsFarAsItMust) {
  Fixture fixture(small_config(), GetParam());
  const bool recurrent = std::string_view(GetParam()) == "qwen3next";
  Result<Conversation> conversation = Conversation::create(fixture.engine());
  ASSERT_TRUE(conversation.ok());
  const Ids first = some_ids(9, 1);
  const Ids expected = fixture.alone(first, greedy(6)).tokens;
  fixture.alone(first, greedy(6), &*conversation);

  // A mark is behind the whole prompt, of which the last token is needed: a recurrent model begins again.
  const Recorder again = fixture.alone(first, greedy(6), &*conversation);
  EXPECT_EQ(again.tokens, expected);
  EXPECT_EQ(again.result.kept_tokens, recurrent ? 0 : 8);

  Ids other = first;
  for (const int32_t id : some_ids(6, 9)) other.push_back(id);
  ASSERT_NE(other[9], expected[0]);
  const Recorder fresh = fixture.alone(other, greedy(6));
  const Recorder kept = fixture.alone(other, greedy(6), &*conversation);
  EXPECT_EQ(kept.tokens, fresh.tokens);
  EXPECT_EQ(kept.result.kept_tokens, 9) << "the answer is forgotten, the prompt is not";

  const Ids foreign = some_ids(12, 3);
  ASSERT_NE(foreign[0], first[0]);
  const Recorder unrelated = fixture.alone(foreign, greedy(6), &*conversation);
  EXPECT_EQ(unrelated.result.kept_tokens, 0);
  EXPECT_EQ(unrelated.tokens, fixture.alone(foreign, greedy(6)).tokens);
}

TEST_P(ConversationTest, GoesOnAfterItsAnswerWasStopped) {
  Fixture fixture(small_config(), GetParam());
  Result<Conversation> conversation = Conversation::create(fixture.engine());
  ASSERT_TRUE(conversation.ok());
  Recorder r;
  std::shared_ptr<RequestHandle> handle;
  r.hook = [&](Recorder& self) {
    if (self.tokens.size() == 4) handle->cancel();
  };
  handle = fixture.submit(r, some_ids(9, 1), greedy(20), &*conversation).value();
  fixture.run();
  ASSERT_EQ(r.tokens.size(), 4u);
  Ids prompt = some_ids(9, 1);
  prompt.insert(prompt.end(), r.tokens.begin(), r.tokens.end());
  prompt.push_back(7);
  const Recorder fresh = fixture.alone(prompt, greedy(6));
  const Recorder kept = fixture.alone(prompt, greedy(6), &*conversation);
  EXPECT_EQ(kept.tokens, fresh.tokens);
  EXPECT_EQ(kept.result.kept_tokens, 12) << "all but the token that was said last";
}

TEST_P(ConversationTest, SurvivesAFailedStep) {
  Fixture fixture(small_config(), GetParam());
  Result<Conversation> conversation = Conversation::create(fixture.engine());
  ASSERT_TRUE(conversation.ok());
  const Ids expected = fixture.alone(some_ids(9, 1), greedy(6)).tokens;
  int n_asked = 0;
  fixture.engine().set_interrupt([&] { return ++n_asked == 2; });
  EXPECT_EQ(fixture.alone(some_ids(9, 1), greedy(6), &*conversation).result.finish, Finish::kFailed);
  EXPECT_EQ(fixture.alone(some_ids(9, 1), greedy(6), &*conversation).tokens, expected);
}

TEST_P(ConversationTest, NeedsNoRoomForMarks) {
  EngineConfig config = small_config();
  config.max_checkpoints = 0;
  Fixture fixture(config, GetParam());
  Result<Conversation> conversation = Conversation::create(fixture.engine());
  ASSERT_TRUE(conversation.ok());
  EXPECT_EQ(fixture.alone(some_ids(9, 1), greedy(6), &*conversation).result.finish, Finish::kMaxTokens);
  EXPECT_EQ(fixture.alone(some_ids(9, 1), greedy(6)).result.finish, Finish::kMaxTokens);
}

INSTANTIATE_TEST_SUITE_P(Archs, ConversationTest, testing::Values("qwen3moe", "gpt-oss", "qwen3next"),
                         [](const auto& arch) {
                           std::string name = arch.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace strata::engine
