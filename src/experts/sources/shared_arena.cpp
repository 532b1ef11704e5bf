#include "experts/sources/shared_arena.h"

#include "base/bytes.h"
#include "base/format.h"

namespace strata::experts {

uint64_t shared_arena_bytes(const ExpertLayout& layout) { return shared_arena::file_bytes(layout.total_bytes()); }

Result<std::unique_ptr<SharedArenaSource>> SharedArenaSource::create(const shared_arena::OpenSpec& spec) {
  ASSIGN_OR_RETURN(shared_arena::Opened opened, open_arena(spec));
  return std::unique_ptr<SharedArenaSource>(new SharedArenaSource(spec, std::move(opened)));
}

SharedArenaSource::SharedArenaSource(const shared_arena::OpenSpec& spec, shared_arena::Opened opened)
    : PermanentSource(spec.layout, spec.stats, Counter::kArenaLeases), opened_(std::move(opened)) {}

// Locking for writing would touch the pages for writing, which tells all engines that the file was changed.
const ArenaLocks& SharedArenaSource::page_lock(device::Device& device, Clock& clock) {
  locks_ = ArenaLocks({.device = device,
                       .layout = layout_,
                       .arena = opened_.payload->bytes(),
                       .mapped = device::MappedAs::kReadOnly,
                       .clock = clock});
  return locks_;
}

Status SharedArenaSource::health() const {
  const Result<SharedFile::Size> size = opened_.file->size();
  if (!size.ok()) return size.error();
  if (!opened_.payload->failed() && shared_arena::is_unchanged(*size, opened_.size)) return {};
  return Error{ErrorCode::kIo, format("shared arena {}: another program has changed the file while it was in use; end "
                                      "all engines that use it, remove it and start again",
                                      printable(opened_.file->path()))};
}

std::string SharedArenaSource::report() const {
  const double seconds = static_cast<double>(opened_.took_ns) * 1e-9;
  const std::string path = printable(opened_.file->path());
  const std::string bytes = format_bytes(opened_.identity.payload_bytes);
  const std::string pages =
      format("{} of {} on 2 MiB pages", format_bytes(bytes_on_large_pages(opened_.payload->bytes())),
             format_bytes(opened_.payload->bytes().size()));
  if (!opened_.loaded) {
    return format("shared arena {}: attached {} another engine loaded, nothing read, in {:.2f} s; {}", path, bytes,
                  seconds, pages);
  }
  return format("shared arena {}: loaded {} in {:.2f} s ({:.2f} GiB/s); {}", path, bytes, seconds,
                static_cast<double>(opened_.identity.payload_bytes) / static_cast<double>(kGiB) / seconds, pages);
}

const std::byte* SharedArenaSource::address(ExpertKey key, int part) const {
  return opened_.payload->bytes().data() + layout_.packed_offset(key) + layout_.layer(key.layer).part_offset(part);
}

}  // namespace strata::experts
