#include "device/sim/interval_map.h"

#include <algorithm>

namespace strata::device::sim {

// Makes `at` a border of cells, if it lies inside one.
void IntervalMap::split(size_t at) {
  auto next = cells_.lower_bound(at);
  if (next == cells_.begin()) return;
  Cell& before = std::prev(next)->second;
  if (before.end <= at) return;
  Cell rest = before;
  before.end = at;
  cells_.emplace_hint(next, at, std::move(rest));
}

// Joins cells that touch each other, from the one before `begin` to the one at `end`, where they hold the same.
void IntervalMap::merge(size_t begin, size_t end) {
  auto cell = cells_.lower_bound(begin);
  if (cell != cells_.begin()) --cell;
  while (cell != cells_.end()) {
    const auto next = std::next(cell);
    if (next == cells_.end() || next->first > end) return;
    if (cell->second.end == next->first && cell->second.same(next->second)) {
      cell->second.end = next->second.end;
      cells_.erase(next);
    } else {
      cell = next;
    }
  }
}

bool IntervalMap::note_in(Cell& cell, const Access& access, bool write, const Strand& strand, size_t begin,
                          Conflict& conflict) {
  bool found = false;
  const auto check = [&](const Access& earlier, bool earlier_writes) {
    if (found || earlier.step == 0 || ordered_before(earlier, strand)) return;
    found = true;
    conflict = {begin, cell.end, earlier, earlier_writes};
  };
  check(cell.write, true);
  if (write) {
    for (const Access& read : cell.reads) check(read, false);
    cell.write = access;
    cell.reads.clear();
    return found;
  }
  // Who is not ordered after an earlier read that this one is ordered after, is not ordered after this one either.
  std::erase_if(cell.reads, [&](const Access& read) { return !is_open(read) && ordered_before(read, strand); });
  cell.reads.push_back(access);
  return found;
}

bool IntervalMap::note(size_t begin, size_t end, const Access& access, bool write, const Strand& strand,
                       Conflict& conflict) {
  if (begin == end) return false;
  split(begin);
  split(end);
  bool found = false;
  size_t at = begin;
  for (auto cell = cells_.lower_bound(begin); at < end;) {
    if (cell == cells_.end() || cell->first > at) {  // nobody has touched these
      const size_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{gap_end, {}, {}});
    }
    Conflict other;
    if (note_in(cell->second, access, write, strand, at, found ? other : conflict)) found = true;
    at = cell->second.end;
    ++cell;
  }
  merge(begin, end);
  return found;
}

void IntervalMap::close(size_t begin, size_t end, uint64_t open, uint64_t step) {
  // Later accesses may have joined or split its cells, so the one that holds `begin` may start before.
  auto cell = cells_.upper_bound(begin);
  if (cell != cells_.begin()) --cell;
  for (; cell != cells_.end() && cell->first < end; ++cell) {
    if (cell->second.write.step == open) cell->second.write.step = step;
    for (Access& read : cell->second.reads) {
      if (read.step == open) read.step = step;
    }
  }
  merge(begin, end);
}

}  // namespace strata::device::sim
