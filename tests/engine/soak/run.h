// Requests of all kinds on one engine, two at a time, for as long as is asked: prompts of all lengths and turns of
// chats, many of them cancelled at some point. With --deterministic every answer is the one that it gets alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/soak/questions.h"

namespace strata::test {

// A moment of the run; seconds of real time.
struct SoakSample {
  double seconds = 0;
  int64_t requests = 0;  // that have ended
  uint64_t ram_bytes = 0, device_bytes = 0;
};

struct SoakOptions {
  uint64_t seed = 1;
  int64_t least_requests = 0;  // it ends when so many have ended...
  double least_seconds = 0;    // ...and so much time is over
  std::function<uint64_t()> device_bytes = {};  // memory of the device in use, as its driver says; empty: nobody asks
  std::function<void(const SoakSample&)> on_sample = {};
};

struct SoakReport {
  int64_t prompts = 0, turns = 0;  // answered as alone
  int64_t cancelled_prompts = 0, cancelled_answers = 0;  // before the first token, and after it
  int64_t kept_tokens = 0;         // of prompts, that conversations held already
  int64_t steps_together = 0;      // in which two requests ran
  std::vector<SoakSample> samples = {};  // evenly over the run, the last one at its end
  std::vector<std::string> wrong = {};  // what went otherwise than alone, one line each; the first one ends the run

  int64_t requests() const { return prompts + turns + cancelled_prompts + cancelled_answers; }
};

// The engine has room for four sequences. At the end every question is asked once more, alone on the same engine.
SoakReport run_soak(engine::Engine& engine, const text::Tokenizer& tokenizer, const SoakQuestions& questions,
                    const SoakOptions& options);

}  // namespace strata::test
