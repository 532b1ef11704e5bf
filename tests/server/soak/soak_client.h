// One of the many clients of the soak test: does one thing after the other, most of them wrong.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/support/wire.h"

namespace strata::test {

struct SoakCounts {
  int64_t finished = 0;  // whole answers, each the one that a lone request gets
  int64_t busy = 0;      // 429, or 503 for large bodies
  int64_t refused = 0;   // as they should be
  std::vector<std::string> wrong = {};  // what was not as it should be
  std::vector<int64_t> done = {};       // of each behaviour
};

class SoakClient {
 public:
  // `lone`: the answer to each question, asked alone.
  SoakClient(uint16_t port, std::span<const std::string> lone, uint64_t seed);

  void do_something();
  const SoakCounts& counts() const { return counts_; }
  // In the order of SoakCounts::done.
  static std::vector<std::string> behaviours();

 private:
  struct Behaviour {
    const char* name;
    void (SoakClient::*act)();
  };
  static const Behaviour kBehaviours[];
  static std::span<const Behaviour> all();

  void ask_whole();
  void ask_stream();
  void ask_twice_on_one_connection();
  void ask_in_chunks();
  void ask_and_end_sending();
  void read_slowly();
  void read_nothing();
  void leave_at_once();
  void leave_in_between();
  void stay_half_open();
  void send_half_a_body();
  void send_too_much();
  void send_too_many_chunks();
  void send_broken_chunks();
  void send_no_json();
  void send_no_http();

  struct Asked {
    size_t question;
    bool stream;
    std::string body, request;
  };
  Asked choose(bool stream);
  bool flip() { return random_.below(2) == 0; }
  void pause(int64_t max_ms);
  void expect_lone_answer(Wire& wire, const Asked& asked, const char* behaviour);
  void expect_status(Wire& wire, int status, const char* behaviour);
  void fail(const char* behaviour, const std::string& what);

  const uint16_t port_;
  const std::span<const std::string> lone_;
  Random random_;
  SoakCounts counts_;
  std::deque<Wire> half_open_;  // stay for a while
};

}  // namespace strata::test
