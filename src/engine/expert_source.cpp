#include "engine/expert_source.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/topology.h"
#include "engine/placing.h"
#include "experts/sources/direct.h"

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
  opened.source = std::move(resident);
  return opened;
}

}  // namespace

Result<OpenedSource> open_expert_source(const ExpertSourceSpec& spec) {
  OpenedSource opened;
  switch (spec.plan.source) {
    case SourceKind::kArena: {
      ASSIGN_OR_RETURN(opened.source,
                       experts::make_arena_source(spec.model, spec.layout, spec.host, spec.threads, spec.stats));
      return opened;
    }
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

}  // namespace strata::engine
