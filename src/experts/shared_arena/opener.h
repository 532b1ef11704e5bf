// Opens an arena file for reading, loading it if nobody has: does the steps of the protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/stats.h"
#include "base/thread_pool.h"
#include "experts/expert.h"
#include "experts/shared_arena/identity.h"
#include "experts/shared_arena/protocol.h"
#include "gguf/gguf.h"

namespace strata::experts::shared_arena {

// Hears what an opening does, on the thread that opens.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Before each step, the last one included.
  virtual void step(Step step) = 0;
  // FILL is held by a loader, process `pid` (0: it has not said so yet), and this engine has been waiting for so long.
  // Called at the first wait, when the loader shows itself, and then every kWaitReportS.
  virtual void waiting(uint32_t pid, int64_t waited_ns) = 0;
  // A file of this kind, which nobody used, made place for this model's.
  virtual void replaced(Kind kind) = 0;
};
inline constexpr int64_t kWaitReportS = 30;

// Outlives the opening; model and layout outlive what comes of it.
struct OpenSpec {
  std::string path;
  const gguf::Model& model;
  const ExpertLayout& layout;  // with experts
  ThreadPool& threads;         // that load
  Clock& clock;
  Stats& stats;
  Watcher& watcher;
  int64_t timeout_s = 600;  // without progress of whoever loads
};

// An arena that this process has attached to. Another engine that maps the file keeps it too; the lock that says so
// lives as long as this.
struct Opened {
  std::unique_ptr<SharedFile> file;
  std::unique_ptr<Mapping> payload;  // read-only
  Identity identity;
  SharedFile::Size size;  // of the file, as long as nobody changes it
  uint64_t checksum = 0;    // that its loader published
  bool loaded = false;    // by this opening
  int64_t took_ns = 0;    // all of it, waiting left out
  int64_t waited_ns = 0;  // for another engine
};

// kBadInput for a path that can't be shared, a file that is no arena, and one of another model that is in use; kIo
// names the file and offset of a failed read, or the engine that loads and stands still; kNoMemory both sizes.
Result<Opened> open_arena(const OpenSpec& spec);

}  // namespace strata::experts::shared_arena
