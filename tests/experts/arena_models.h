// Models in real files whose experts are shared, and what it takes to open their arena.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "experts/expert_files.h"
#include "experts/sources/shared_arena.h"
#include "gguf/gguf.h"

namespace strata::test {

// "a"; "b", of the same shapes and with other bytes; "c", of other shapes and the same size; "large", of a larger one.
ExpertSpec arena_spec(const std::string& name);
void write_arena_model(const std::string& name, const std::string& path);
experts::ExpertLayout arena_layout(const std::string& name, const gguf::Model& model);

// Where arena files are made: /dev/shm, and the folder that STRATA_TEST_ARENA_DIR names, on hugetlbfs.
std::vector<std::string> arena_folders();

// Keeps what an opening tells.
class NotedSteps : public experts::shared_arena::Watcher {
 public:
  void step(experts::shared_arena::Step step) override { steps.push_back(step); }
  void waiting(uint32_t pid, int64_t waited_ns) override { waits.push_back({pid, waited_ns}); }
  void replaced(experts::shared_arena::Kind kind) override { replacements.push_back(kind); }

  struct Wait {
    uint32_t pid;
    int64_t waited_ns;
  };
  std::vector<experts::shared_arena::Step> steps;
  std::vector<Wait> waits;
  std::vector<experts::shared_arena::Kind> replacements;
};

}  // namespace strata::test
