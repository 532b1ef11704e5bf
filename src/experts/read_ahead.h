// Which experts of mapped files it pays to ask the system for before their pages are touched.
//
// A page that is touched without having been asked for costs a wait of its own, with a small read-ahead around it: a
// drive that could serve dozens of reads at once gets one or two. To ask costs a system call a range, which is too much
// for pages that are there. So every expert is asked for once, and again after the process had to wait for the drive:
// then pages were missing, at first or because the system has taken some back.
#pragma once

#include <atomic>
#include <memory>

#include "experts/expert.h"

namespace strata::experts {

// Any thread; two that ask about the same expert at once may both be told yes.
class ReadAhead {
 public:
  // The layout outlives it.
  explicit ReadAhead(const ExpertLayout& layout);

  // `faults`: page faults so far that waited for the drive (major_page_faults()).
  void note_faults(int64_t faults);
  // Whether to ask for the expert now.
  bool wanted(ExpertKey key);

 private:
  const ExpertLayout& layout_;
  std::unique_ptr<std::atomic<int64_t>[]> asked_;  // [experts of all layers] the period it was last asked for in
  std::atomic<int64_t> period_{1};
  std::atomic<int64_t> faults_{0};
};

}  // namespace strata::experts
