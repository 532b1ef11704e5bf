// A line on stderr while a model is being loaded, for people who wait.
#pragma once

#include <condition_variable>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace strata::cli {

// From half a second after its making until its end it shows what is loaded and for how long; then the line is cleared.
// Only where stderr is a terminal.
class LoadingLine {
 public:
  explicit LoadingLine(std::string what);
  ~LoadingLine();
  LoadingLine(const LoadingLine&) = delete;
  LoadingLine& operator=(const LoadingLine&) = delete;

 private:
  void show();

  const std::string what_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool done_ = false;
  std::thread thread_;  // none where nobody looks
};

}  // namespace strata::cli
