#include "engine/hand_off.h"

#include "base/mutation.h"

namespace strata::engine {
namespace {

size_t rows_bytes(int64_t rows, int64_t dim) { return static_cast<size_t>(rows * dim) * sizeof(float); }

}  // namespace

HandOffBytes HandOff::bytes_needed(int64_t max_rows, int64_t dim, bool peers) {
  const uint64_t both = 2 * uint64_t{rows_bytes(max_rows, dim)};
  return peers ? HandOffBytes{.device = both} : HandOffBytes{.host = both};
}

Result<std::unique_ptr<HandOff>> HandOff::create(const HandOffSpec& spec) {
  ASSERT(!spec.peers || spec.from.device()->reaches(*spec.to.device()));
  std::unique_ptr<HandOff> hand_off(new HandOff(spec));
  RETURN_IF_ERROR(hand_off->allocate());
  return hand_off;
}

Status HandOff::allocate() {
  device::Device& receiver = *spec_.to.device();
  const size_t bytes = rows_bytes(spec_.max_rows, spec_.dim);
  constexpr const char* kName = "hidden rows on their way";
  for (Way& way : ways_) {
    if (spec_.peers) {
      ASSIGN_OR_RETURN(way.memory, receiver.allocate(bytes, kName));
    } else {
      ASSIGN_OR_RETURN(way.memory, receiver.allocate_host(bytes, device::MemoryKind::kPinned, kName));
    }
    way.sent = spec_.from.device()->make_event();
    way.taken = receiver.make_event();
  }
  return {};
}

void HandOff::send(const device::View<float>& rows) {
  ASSERT(n_sent_ - n_received_ < ways_.size());
  Way& way = ways_[n_sent_++ % ways_.size()];
  spec_.from.wait(*way.taken);
  spec_.from.copy(*way.memory, 0, *rows.memory, rows.offset, rows_bytes(rows.rows, rows.cols));
  spec_.from.record(*way.sent);
}

void HandOff::receive(const device::View<float>& rows) {
  ASSERT(n_received_ < n_sent_);
  Way& way = ways_[n_received_++ % ways_.size()];
  if (!mutated(Mutation::kHandOffNotAwaited)) spec_.to.wait(*way.sent);
  spec_.to.copy(*rows.memory, rows.offset, *way.memory, 0, rows_bytes(rows.rows, rows.cols));
  spec_.to.record(*way.taken);
}

}  // namespace strata::engine
