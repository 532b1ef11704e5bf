#include "engine/expert_source.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/shared_file.h"
#include "base/topology.h"
#include "engine/placing.h"
#include "experts/checksum.h"
#include "experts/sources/arena.h"
#include "experts/sources/direct.h"
#include "experts/sources/shared_arena.h"

namespace strata::engine {
namespace {

using experts::ExpertSource;
using experts::SourceKind;

Result<std::unique_ptr<ExpertSource>> open_files(const ExpertSourceSpec& spec, SourceKind kind, std::string& report) {
  if (kind == SourceKind::kMapped) return experts::make_mapped_source(spec.model, spec.layout, spec.stats);
  const bool own_memory = !spec.device.host_accessible();
  ASSIGN_OR_RETURN(std::unique_ptr<experts::DirectSource> direct,
                   experts::make_direct_source({.model = spec.model,
                                                .layout = spec.layout,
                                                .files = real_file_system(),
                                                .device = spec.device,
                                                .clock = real_clock(),
                                                .stats = spec.stats,
                                                .n_buffers = stage_buffers(spec.n_used, spec.plan.parts.size()),
                                                .pin = spec.config.stage_pin && own_memory,
                                                .io_timeout_s = spec.config.io_timeout_s}));
  report = direct->report();
  return std::unique_ptr<ExpertSource>(std::move(direct));
}

Result<OpenedSource> open_resident(const ExpertSourceSpec& spec) {
  OpenedSource opened;
  ASSIGN_OR_RETURN(std::unique_ptr<ExpertSource> below, open_files(spec, spec.plan.below, opened.report));
  uint64_t pin_bytes = 0;
  if (!spec.device.host_accessible()) {
    ASSIGN_OR_RETURN(pin_bytes, free_ram_bytes());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<experts::ResidentSource> resident,
                   experts::ResidentSource::create({.model = spec.model,
                                                    .layout = spec.layout,
                                                    .device = spec.device,
                                                    .threads = spec.threads,
                                                    .stats = spec.stats,
                                                    .pin_bytes_max = pin_bytes},
                                                   spec.plan.resident, std::move(below)));
  if (pin_bytes > 0) {
    if (!opened.report.empty()) opened.report += "\n";
    opened.report += format("resident copy: {} of {} page-locked", format_bytes(resident->pinned_bytes()),
                            format_bytes(resident->bytes()));
  }
  opened.resident = resident.get();
  opened.pinned_bytes = resident->pinned_bytes();
  opened.source = std::move(resident);
  return opened;
}

void give_notice(const EngineConfig& config, const std::string& line) {
  if (config.notice) {
    config.notice(line);
  } else {
    log_info("{}", line);
  }
}

// Whether copies to a device are queued straight out of where experts lie.
bool streams(const experts::PlacementPlan& plan) {
  return std::any_of(plan.parts.begin(), plan.parts.end(),
                     [](const experts::PartPlacement& part) { return !part.ring.empty(); });
}

template <class Arena>
void page_lock(const ExpertSourceSpec& spec, Arena& arena, OpenedSource& opened) {
  if (!streams(spec.plan)) return;
  const experts::ArenaLocks& locks = arena.page_lock(spec.device, real_clock());
  opened.report += "; " + locks.report();
  opened.warning = locks.warning();
  opened.pinned_bytes = locks.bytes();
}

Result<OpenedSource> open_arena(const ExpertSourceSpec& spec) {
  const int64_t begin_ns = real_clock().now_ns();
  ASSIGN_OR_RETURN(std::unique_ptr<experts::ArenaSource> arena,
                   experts::ArenaSource::create(spec.model, spec.layout, spec.host, spec.threads, spec.stats));
  const double seconds = static_cast<double>(real_clock().now_ns() - begin_ns) * 1e-9;
  const auto bytes = static_cast<double>(arena->bytes().size());
  OpenedSource opened;
  opened.report = format("arena: {} read in {:.2f} s ({:.2f} GiB/s); {} on 2 MiB pages",
                         format_bytes(arena->bytes().size()), seconds, bytes / static_cast<double>(kGiB) / seconds,
                         format_bytes(bytes_on_large_pages(arena->bytes())));
  page_lock(spec, *arena, opened);
  opened.source = std::move(arena);
  return opened;
}

// Tells people why the start takes long, and what became of their file.
class ArenaNotices final : public experts::shared_arena::Watcher {
 public:
  explicit ArenaNotices(const EngineConfig& config) : config_(config) {}

  void step(experts::shared_arena::Step step) override {
    log_debug("shared arena {}: {}", file(), step_name(step));
  }
  void waiting(uint32_t pid, int64_t waited_ns) override {
    waited_ = true;
    const std::string who = pid == 0 ? "another engine" : format("engine {}", pid);
    const int64_t seconds = waited_ns / 1'000'000'000;
    const std::string since = seconds < 1 ? "" : format(" for {} s", seconds);
    give_notice(config_, format("shared arena {}: {} is loading it, waiting{}", file(), who, since));
  }
  void replaced(experts::shared_arena::Kind kind) override {
    give_notice(config_, format("shared arena {}: the file {}; no engine used it, and it is replaced", file(),
                                kind_text(kind)));
  }
  bool waited() const { return waited_; }

 private:
  std::string file() const { return printable(config_.shared_arena); }
  const EngineConfig& config_;
  bool waited_ = false;
};

Result<OpenedSource> open_shared_arena(const ExpertSourceSpec& spec) {
  ArenaNotices notices(spec.config);
  ASSIGN_OR_RETURN(std::unique_ptr<experts::SharedArenaSource> arena,
                   experts::SharedArenaSource::create({.path = spec.config.shared_arena,
                                                       .model = spec.model,
                                                       .layout = spec.layout,
                                                       .threads = spec.threads,
                                                       .clock = real_clock(),
                                                       .stats = spec.stats,
                                                       .watcher = notices,
                                                       .timeout_s = spec.config.shared_arena_timeout_s}));
  OpenedSource opened;
  opened.report = arena->report();
  page_lock(spec, *arena, opened);
  // Who was told to wait is told what came of it.
  if (notices.waited()) give_notice(spec.config, opened.report);
  opened.published_checksum = arena->published_checksum();
  opened.source = std::move(arena);
  return opened;
}

Result<OpenedSource> open_source(const ExpertSourceSpec& spec) {
  OpenedSource opened;
  switch (spec.plan.source) {
    case SourceKind::kArena:
      return spec.config.shared_arena.empty() ? open_arena(spec) : open_shared_arena(spec);
    case SourceKind::kResident:
      return open_resident(spec);
    case SourceKind::kMapped:
    case SourceKind::kDirect: {
      ASSIGN_OR_RETURN(opened.source, open_files(spec, spec.plan.source, opened.report));
      return opened;
    }
  }
  return opened;
}

// --verify-arena: says what the experts' bytes come to, wherever they lie.
Status verify(const ExpertSourceSpec& spec, const OpenedSource& opened) {
  ASSIGN_OR_RETURN(const uint64_t found, source_checksum(*opened.source, spec.layout, spec.threads));
  const std::optional<uint64_t>& wanted = opened.published_checksum;
  if (wanted && found != *wanted) {
    return Error{ErrorCode::kIo,
                 format("shared arena {}: its experts have the checksum {:016x}, and {:016x} when they were loaded; "
                        "end the engines that use it, remove it and start again",
                        printable(spec.config.shared_arena), found, *wanted)};
  }
  give_notice(spec.config, format("experts ({}): checksum {:016x} of {}", opened.source->name(), found,
                                  format_bytes(spec.layout.total_bytes())));
  return {};
}

}  // namespace

Result<OpenedSource> open_expert_source(const ExpertSourceSpec& spec) {
  ASSIGN_OR_RETURN(OpenedSource opened, open_source(spec));
  if (spec.config.verify_arena) RETURN_IF_ERROR(verify(spec, opened));
  return opened;
}

}  // namespace strata::engine
