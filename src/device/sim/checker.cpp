#include "device/sim/checker.h"

#include "base/format.h"

namespace strata::device::sim {
namespace {

const char* kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return "device memory";
    case MemoryKind::kPinned:
      return "pinned";
    case MemoryKind::kPageable:
      return "pageable";
  }
  return "";
}

std::string place(SourceSite site) {
  const std::string_view path = site.file;
  if (path.empty()) return "";
  return format(" at {}:{}", path.substr(path.rfind('/') + 1), site.line);
}

std::string who(const Access& access) {
  const AccessSite& s = *access.site;
  return format("{}: {}{}", *s.strand, s.what, place(s.site));
}

std::string line_of(const Access& access, bool write) {
  const std::string step = is_open(access) ? "under way" : format("step {}", access.step);
  return format("  {} by {}, {}\n", write ? "write" : "read ", who(access), step);
}

// When an access starts, as far as the program has a say in it.
std::string start_of(const AccessSite& s) {
  switch (s.kind) {
    case StrandKind::kHost:
      return format("before the {}", s.what);
    case StrandKind::kRead:
      return "before the read is submitted";
    default:
      return format("before the {} is queued", s.what);
  }
}

// What would order `first` before `second`.
std::string missing_edge(const AccessSite& first, const AccessSite& second) {
  const bool to_stream = second.kind == StrandKind::kStream;
  switch (first.kind) {
    case StrandKind::kStream:
      return format("record an event on {} after the {}, and {} {}", *first.strand, first.what,
                    to_stream ? format("let {} wait for it", *second.strand) : "wait for it", start_of(second));
    case StrandKind::kTasks:
      return format("wait for the ticket of the {}{} {}", first.what, to_stream ? "" : ", and synchronize the stream,",
                    start_of(second));
    case StrandKind::kRead:
      return format("reap the read {}", start_of(second));
    case StrandKind::kHost:
      break;
  }
  if (second.kind == StrandKind::kHost) return "a lock that both threads take, or the start or join of one of them";
  return format("finish the {} {}", first.what, start_of(second));
}

}  // namespace

const AccessSite* Checker::site_of(const Strand& strand, std::string_view what, SourceSite site) {
  const auto at = sites_.find({strand.name, site.file, site.line, what});
  if (at != sites_.end()) return at->second.get();
  auto made = std::make_unique<AccessSite>(AccessSite{strand.name, strand.kind, std::string(what), site});
  const AccessSite* kept = made.get();
  sites_.emplace(SiteKey{strand.name, site.file, site.line, kept->what}, std::move(made));
  return kept;
}

Checker::Report Checker::report(const Strand& strand, const Range& range, const Access& access,
                                const Conflict& conflict) {
  const AccessSite& first = *conflict.earlier.site;
  const AccessSite& second = *access.site;
  const Memory& memory = *range.memory;
  Report report;
  report.line = format("race on '{}', bytes [{}, {}): nothing orders the {} by {} and the {} by {}", memory.name(),
                       conflict.begin, conflict.end, conflict.earlier_writes ? "write" : "read", who(conflict.earlier),
                       range.write ? "write" : "read", who(access));
  report.text = format("race on '{}' ({}, {}), bytes [{}, {})\n", memory.name(), kind_name(memory.kind()),
                       format_bytes(memory.bytes()), conflict.begin, conflict.end);
  report.text += line_of(conflict.earlier, conflict.earlier_writes);
  report.text += line_of(access, range.write);
  report.text += format("  clocks:  {} has seen {} up to step {}\n", *second.strand, *first.strand,
                        strand.now.of(conflict.earlier.slot));
  report.text += format("  missing: in this order, {};\n           or the other way round, {}",
                        missing_edge(first, second), missing_edge(second, first));
  return report;
}

std::optional<std::string> Checker::note(Strand& strand, IntervalMap& accesses, const Range& range,
                                         const Access& access) {
  // Rows that follow each other without a gap are one run of bytes.
  const bool packed = range.stride_bytes == range.row_bytes;
  const int64_t runs = range.rows == 0 || range.row_bytes == 0 ? 0 : packed ? 1 : range.rows;
  const size_t run_bytes = packed ? static_cast<size_t>(range.rows) * range.row_bytes : range.row_bytes;
  strand.touched = true;
  Conflict conflict;
  bool found = false;
  for (int64_t r = 0; r < runs; r++) {
    const size_t begin = range.offset + static_cast<size_t>(r) * range.stride_bytes;
    Conflict other;
    found |= accesses.note(begin, begin + run_bytes, access, range.write, strand, found ? other : conflict);
  }
  if (!found) return std::nullopt;
  n_races_++;
  Report made = report(strand, range, access, conflict);
  std::string line = made.line;
  if (reported_.emplace(conflict.earlier.site, access.site).second && reports_.size() < kReportsMax)
    reports_.push_back(std::move(made));
  return line;
}

std::optional<std::string> Checker::note(Strand& strand, IntervalMap& accesses, const Range& range,
                                         std::string_view what, SourceSite site) {
  return note(strand, accesses, range, {strand.slot, strand.step(), site_of(strand, what, site)});
}

uint64_t Checker::open(Strand& strand, IntervalMap& accesses, const Range& range, std::string_view what,
                       SourceSite site, std::optional<std::string>& race) {
  const uint64_t number = next_open_--;
  open_[number] = {&strand, &accesses, range.offset, range.offset + range.row_bytes};
  race = note(strand, accesses, range, {strand.slot, number, site_of(strand, what, site)});
  return number;
}

void Checker::close(uint64_t number) {
  const auto at = open_.find(number);
  ASSERT(at != open_.end());
  const Open& open = at->second;
  open.accesses->close(open.begin, open.end, number, open.strand->step());
  open_.erase(at);
}

}  // namespace strata::device::sim
