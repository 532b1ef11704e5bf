// What has to be true of a soak.
#pragma once

#include <string>
#include <vector>

#include "base/stats.h"
#include "engine/soak/run.h"

namespace strata::test {

struct SoakDemands {
  bool memory = false;  // from a third of the run on it must not grow; before that, buffers do
  bool cpu = false;     // the CPU has to have computed experts
};

// What is not, one line each: a request went otherwise than alone, a kind of request or a change of places never
// happened, something was not given back. `stats` are those of the engine, from its opening to the end of the run.
std::vector<std::string> soak_faults(const SoakReport& report, const Stats& stats, const SoakDemands& demands);

// For people.
std::string soak_text(const SoakReport& report, const Stats& stats);
std::string soak_text(const SoakSample& sample);

}  // namespace strata::test
