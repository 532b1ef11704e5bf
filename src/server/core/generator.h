// What computes answers, as the server sees it: an engine on a thread of its own, or scripted tokens in tests.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/request.h"
#include "server/api/endpoint.h"

namespace strata::server {

enum class GeneratorPhase { kLoading, kReady, kFailed, kStopped };

struct LoadProgress {
  double fraction = 0;  // of the model's bytes, 0 to 1
  double seconds = 0;   // since it began
};

// Any thread.
class Generator {
 public:
  virtual ~Generator() = default;
  virtual GeneratorPhase phase() const = 0;
  virtual LoadProgress progress() const = 0;
  // Null until it is loaded; then the same until the generator dies.
  virtual const ServedModel* model() const = 0;
  // Answers that are computed at once; others wait.
  virtual int slots() const = 0;
  // As engine::Scheduler::submit(). The listener is called on the generator's thread. kCancelled when it has stopped.
  virtual Result<std::shared_ptr<engine::RequestHandle>> submit(const GenerationJob& job,
                                                                engine::RequestListener& listener) = 0;
  // For people: where the model lies and what computes it. A line each, "" where there is nothing to say.
  virtual std::string describe() const = 0;
};

}  // namespace strata::server
