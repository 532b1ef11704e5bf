// Goal: what is counted comes out as Prometheus reads it.
#include "server/core/metrics.h"

#include <sstream>

#include <gtest/gtest.h>

namespace strata::server {
namespace {

TEST(Metrics, IsWellFormed) {
  Metrics metrics;
  Stats stats;
  stats.add(Counter::kCacheHits, 12);
  metrics.first_token(70'000'000);
  metrics.next_token(1'000'000);
  metrics.next_token(100'000'000'000);
  engine::RequestResult result;
  result.finish = engine::Finish::kRepetition;  // R10
  result.prompt_tokens = 5, result.answer_tokens = 256;
  metrics.job_finished(result, 2'000'000'000);
  metrics.answered(200);
  metrics.answered(429);
  const std::string text = metrics.to_text({.model = "a\"b\\c\nd", .stats = &stats, .running = 3});
  std::istringstream lines(text);
  std::string name;  // of the last TYPE line
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) name = line.substr(7, line.find(' ', 7) - 7);
    if (line.starts_with("#")) continue;
    EXPECT_TRUE(line.starts_with(name)) << line;
    EXPECT_NE(line.find("{model_name=\"a\\\"b\\\\c\\nd\""), std::string::npos) << line;
    EXPECT_NE(line.find("} "), std::string::npos) << line;
  }
  for (const char* part :
       {"vllm:num_requests_running{model_name=\"a\\\"b\\\\c\\nd\"} 3\n", "strata:cache_hits_total{", "} 12\n",
        "cause=\"repetition\"} 1\n", "status=\"429\"} 1\n", "# TYPE strata:kv_blocks_used gauge\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"a\\\"b\\\\c\\nd\",le=\"0.001\"} 1\n",
        "le=\"+Inf\"} 2\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_DOUBLE_EQ(metrics.mean_request_s(), 2);
  EXPECT_GT(process_resident_bytes(), 1 << 20);
}

}  // namespace
}  // namespace strata::server
