#include "experts/arena_locks.h"

#include "base/format.h"

namespace strata::experts {
namespace {

// Where the experts begin, in the order in which they lie, and where the last one ends.
std::vector<uint64_t> borders_of(const ExpertLayout& layout) {
  std::vector<uint64_t> borders;
  for (int32_t l = 0; l < static_cast<int32_t>(layout.layers().size()); l++) {
    for (int32_t e = 0; e < layout.layer(l).n_experts; e++) borders.push_back(layout.packed_offset({l, e}));
  }
  borders.push_back(layout.total_bytes());
  return borders;
}

}  // namespace

ArenaLocks::ArenaLocks(const ArenaLockSpec& spec)
    : slices_of_(spec.layout.n_experts()), all_bytes_(spec.layout.total_bytes()) {
  const std::vector<uint64_t> borders = borders_of(spec.layout);
  const int64_t begin_ns = spec.clock.now_ns();
  Status status = lock(spec, borders, 0, slices_of_.size());
  // One that can't lock the pages as they are mapped refuses a part of them as well.
  if (!status.ok() && status.error().code != ErrorCode::kUnsupported) status = lock_slices(spec, borders);
  took_ns_ = spec.clock.now_ns() - begin_ns;
  if (status.ok()) return;
  warning_ = format("{} of the {} of experts in RAM are not page-locked, so prompts copy them at a fraction of the "
                    "link's rate: {}", format_bytes(all_bytes_ - bytes_), format_bytes(all_bytes_),
                    status.error().message);
  if (status.error().code == ErrorCode::kUnsupported) return;
  warning_ += "; raise what may be locked (ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit)";
}

Status ArenaLocks::lock_slices(const ArenaLockSpec& spec, std::span<const uint64_t> borders) {
  for (size_t first = 0; first < slices_of_.size();) {
    size_t last = first + 1;
    while (last < slices_of_.size() && borders[last + 1] - borders[first] <= spec.slice_bytes) last++;
    RETURN_IF_ERROR(lock(spec, borders, first, last));
    first = last;
  }
  return {};
}

Status ArenaLocks::lock(const ArenaLockSpec& spec, std::span<const uint64_t> borders, size_t first, size_t last) {
  const uint64_t bytes = borders[last] - borders[first];
  ASSIGN_OR_RETURN(auto slice, spec.device.page_lock(spec.arena.subspan(borders[first], bytes), spec.mapped,
                                                     "the expert arena"));
  for (size_t i = first; i < last; i++) slices_of_[i] = slice.get();
  slices_.push_back(std::move(slice));
  bytes_ += bytes;
  return {};
}

std::string ArenaLocks::report() const {
  if (all_bytes_ == 0) return {};
  const double seconds = static_cast<double>(took_ns_) * 1e-9;
  return format("{} of {} page-locked in {:.2f} s", format_bytes(bytes_), format_bytes(all_bytes_), seconds);
}

}  // namespace strata::experts
