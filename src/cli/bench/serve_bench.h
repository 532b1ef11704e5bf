// How fast a server answers several clients at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/client.h"

namespace strata::cli {

struct ServeBenchOptions {
  server::http::Url url;
  std::string api_key = {};
  std::vector<int64_t> clients;      // at once, one measurement each
  int64_t requests = 5;              // of each client, one after another
  int64_t prompt_words = 512;        // of a prompt; no two prompts begin alike
  int64_t answer_tokens = 64;
};

// Of the middle and of the slowest in a hundred.
struct Percentiles {
  double p50 = 0, p99 = 0;
};
// By the nearest rank; zeros for no values.
Percentiles percentiles_of(std::vector<double> values);

struct ServeResult {
  int64_t clients = 0;
  int64_t requests = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0;  // as the server counts them
  double seconds = 0;
  Percentiles first_token_s;     // from a request to the first text of its answer
  Percentiles between_tokens_s;  // from one piece of text to the next
};

// One measurement, after one request that does not count. Fails when a request does.
Result<ServeResult> bench_serve(const ServeBenchOptions& options, int64_t clients);

std::string serve_table_head();
std::string serve_row(const ServeResult& result);
std::string serve_json(const std::vector<ServeResult>& results);

}  // namespace strata::cli
