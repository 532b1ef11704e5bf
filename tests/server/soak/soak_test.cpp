// Goal: whatever 64 clients do to "strata serve" for seconds or minutes, every answer that is finished is the one that
// a lone request gets, and all that was taken comes back: slots, connections, descriptors, memory. Method: the program
// with the demo model, deterministic, at temperature 0; clients with fixed seeds, most of which behave badly.
#include <atomic>
#include <numeric>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/sync.h"
#include "server/soak/questions.h"
#include "server/soak/served_program.h"
#include "server/soak/soak_client.h"
#include "support/memory_growth.h"

namespace strata::test {
namespace {

constexpr size_t kClients = 64;
constexpr double kNsPerS = 1e9;

std::string page(const ServedProgram& server, const char* path) {
  Wire wire(server.port());
  wire.send(get(path));
  return wire.answer().value_or(WireAnswer{}).body;
}

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000; i++) {
    if (condition()) return true;
    real_clock().sleep_ns(10'000'000);
  }
  return false;
}

// The last connections are closed a moment after their clients.
int descriptors_at_rest(const ServedProgram& server) {
  int least = server.descriptors();
  for (int unchanged = 0; unchanged < 50; unchanged++) {
    real_clock().sleep_ns(10'000'000);
    const int count = server.descriptors();
    if (count >= least) continue;
    least = count;
    unchanged = 0;
  }
  return least;
}

std::vector<std::string> lone_answers(const ServedProgram& server) {
  std::vector<std::string> texts;
  for (const Question& question : questions()) {
    for (const bool stream : {false, true}) {
      Wire wire(server.port());
      wire.send(post(question.path, body_of(question, stream)));
      const auto text = text_of_answer(question, stream, wire.answer().value_or(WireAnswer{}).body);
      EXPECT_TRUE(text && text->size() > 10) << question.body;
      if (!stream) texts.push_back(text.value_or(""));
      EXPECT_EQ(text, texts.back()) << question.body;
    }
  }
  return texts;
}

// All clients at once, until each has done `rounds` things and `seconds` are over.
std::vector<SoakCounts> soak(const ServedProgram& server, std::span<const std::string> lone, int rounds, double seconds,
                             std::vector<MemorySample>& samples) {
  const int64_t begin_ns = real_clock().now_ns();
  const auto elapsed_s = [&] { return static_cast<double>(real_clock().now_ns() - begin_ns) / kNsPerS; };
  std::vector<SoakCounts> counts(kClients);
  std::atomic<size_t> running{kClients};
  std::vector<std::unique_ptr<Thread>> threads;
  for (size_t i = 0; i < kClients; i++) {
    threads.push_back(std::make_unique<Thread>([&, i] {
      SoakClient client(server.port(), lone, 1000 + i);
      for (int round = 0; round < rounds || elapsed_s() < seconds; round++) client.do_something();
      counts[i] = client.counts();
      running.fetch_sub(1);
    }));
  }
  while (running.load() > 0) {
    samples.push_back({elapsed_s() / 60, static_cast<double>(server.resident_bytes())});
    real_clock().sleep_ns(200'000'000);
  }
  return counts;
}

void print(const SoakCounts& all, const std::vector<MemorySample>& samples, double growth) {
  std::cout << all.finished << " answers as alone, " << all.busy << " times busy, " << all.refused << " refused;";
  const std::vector<std::string> names = SoakClient::behaviours();
  for (size_t i = 0; i < names.size(); i++) std::cout << (i > 0 ? ", " : " ") << all.done[i] << " " << names[i];
  std::cout << "; RAM " << samples.front().bytes / (1 << 20) << " to " << samples.back().bytes / (1 << 20)
            << " MiB, after the first minute " << 100 * growth << " % a minute\n";
}

void run(int rounds, double seconds) {
  ServedProgram server({"--deterministic", "--parallel=4", "--ctx=256", "--threads=2", "--max-queue=48",
                        "--max-body-mib=1", "--log-level=error"});
  ASSERT_NE(server.port(), 0) << server.output();
  const std::vector<std::string> lone = lone_answers(server);
  ASSERT_NE(lone[0], lone[1]);  // the comparison can fail
  const auto idle = [&] {
    const std::string metrics = page(server, "/metrics");
    const auto is = [&](const char* name, const char* value) {
      return metrics.find(std::string(name) + "{model_name=\"tales-moe-q4_k_m\"} " + value + "\n") != std::string::npos;
    };
    return is("vllm:num_requests_running", "0") && is("vllm:num_requests_waiting", "0") &&
           is("strata:kv_blocks_used", "0") && is("strata:http_connections", "1");  // its own
  };
  ASSERT_TRUE(soon(idle)) << page(server, "/metrics");
  const int descriptors = descriptors_at_rest(server);

  std::vector<MemorySample> samples;
  SoakCounts all;
  all.done.resize(SoakClient::behaviours().size());
  for (const SoakCounts& counts : soak(server, lone, rounds, seconds, samples)) {
    all.finished += counts.finished;
    all.busy += counts.busy;
    all.refused += counts.refused;
    all.wrong.insert(all.wrong.end(), counts.wrong.begin(), counts.wrong.end());
    for (size_t i = 0; i < all.done.size(); i++) all.done[i] += counts.done[i];
  }
  const double growth = growth_per_minute(samples, 1);
  print(all, samples, growth);

  for (const std::string& wrong : all.wrong) ADD_FAILURE() << wrong.substr(0, 2000);
  for (size_t i = 0; i < all.done.size(); i++) EXPECT_GT(all.done[i], 0) << SoakClient::behaviours()[i];
  EXPECT_GT(all.finished, 20);
  EXPECT_LT(growth, 0.01);
  EXPECT_TRUE(soon(idle)) << page(server, "/metrics");
  EXPECT_EQ(page(server, "/slots").find("true"), std::string::npos) << page(server, "/slots");
  EXPECT_EQ(descriptors_at_rest(server), descriptors);
  EXPECT_EQ(lone_answers(server), lone);
  EXPECT_EQ(server.end(), 0) << server.output();
}

TEST(Growth, IsTheSlopeOfTheBestLine) {
  EXPECT_DOUBLE_EQ(growth_per_minute({{0, 900}, {1, 100}, {2, 110}, {3, 120}}, 1), 10.0 / 110);
  EXPECT_NEAR(growth_per_minute({{1, 100}, {2, 110}, {3, 100}}, 0), 0, 1e-12);
  EXPECT_EQ(growth_per_minute({{0, 100}}, 1), 0);
}

TEST(Soak, Rounds) { run(6, 0); }
TEST(Soak, HalfAMinute) { run(0, 30); }
TEST(Soak, FiveMinutes) { run(0, 300); }

}  // namespace
}  // namespace strata::test
