// Finds accesses that race: two of the same bytes, one of them a write, that no chain of events, tickets, joins and
// locks orders. It goes by the order that the program has built, not by what happened in this run, so a race is found
// whichever of the two came first.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/source_site.h"
#include "device/memory.h"
#include "device/sim/interval_map.h"

namespace strata::device::sim {

// Who accesses, doing what, asked for by which line: kept for good, so there is one of each.
struct AccessSite {
  const std::string* strand;
  StrandKind kind;
  std::string what;
  SourceSite site;
};

// Calls hold the mutex of the Order.
class Checker {
 public:
  struct Report {
    std::string line;  // which memory, who and who
    std::string text;  // several lines: with clocks and what is missing
  };

  // Notes that `strand` accesses the range now. If that is a race, returns the line of its report, whether or not the
  // same was reported before.
  // `accesses` belong to the memory of the range.
  std::optional<std::string> note(Strand& strand, IntervalMap& accesses, const Range& range, std::string_view what,
                                  SourceSite site);
  // The same for an access that lasts until close(). The number returned names it.
  uint64_t open(Strand& strand, IntervalMap& accesses, const Range& range, std::string_view what, SourceSite site,
                std::optional<std::string>& race);
  void close(uint64_t number);

  // The reports so far, each pair of places once; at most kReportsMax of them.
  const std::vector<Report>& reports() const { return reports_; }
  // Accesses that raced, however often.
  uint64_t n_races() const { return n_races_; }
  static constexpr size_t kReportsMax = 100;

 private:
  struct Open {
    const Strand* strand;
    IntervalMap* accesses;
    size_t begin, end;
  };

  const AccessSite* site_of(const Strand& strand, std::string_view what, SourceSite site);
  std::optional<std::string> note(Strand& strand, IntervalMap& accesses, const Range& range, const Access& access);
  Report report(const Strand& strand, const Range& range, const Access& access, const Conflict& conflict);

  using SiteKey = std::tuple<const std::string*, const char*, int, std::string_view>;  // the view lies in the site
  std::map<SiteKey, std::unique_ptr<AccessSite>> sites_;
  std::unordered_map<uint64_t, Open> open_;
  uint64_t next_open_ = kOpenAccess;
  std::set<std::pair<const AccessSite*, const AccessSite*>> reported_;
  std::vector<Report> reports_;
  uint64_t n_races_ = 0;
};

}  // namespace strata::device::sim
