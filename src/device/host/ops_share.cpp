#include <algorithm>
#include <cstring>

#include "device/host/host_ops.h"

namespace strata::device::host {
namespace {

// Leaves in counts[] the pairs of the experts that may be linked, zeros for all others. How many of them are linked.
int32_t linked_wanted(const ShareExperts& op, int32_t* counts) {
  int32_t missing = 0, linkable = 0;
  for (int64_t e = 0; e < op.place_of.cols; e++) {
    const bool misses = counts[e] > 0 && (op.slot_of.empty() || op.slot_of.data()[e] < 0);
    const bool may = misses && !op.linked.empty() && op.linked.data()[e] != 0;
    missing += misses;
    linkable += may;
    if (!may) counts[e] = 0;
  }
  return op.share.empty() ? 0 : std::min(op.share.data()[missing], linkable);
}

}  // namespace

void run(const ShareExperts& op, Compute&) {
  const int64_t live = op.live.data()[0], k = op.ids.cols, n = op.place_of.cols;
  op.told_live.data()[0] = static_cast<int32_t>(live);
  int32_t* counts = op.place_of.data();
  std::fill_n(counts, n, 0);
  for (int64_t r = 0; r < live; r++) {
    std::memcpy(op.told_ids.row(r), op.ids.row(r), static_cast<size_t>(k) * sizeof(int32_t));
    std::memcpy(op.told_x.row(r), op.x.row(r), static_cast<size_t>(op.x.cols) * sizeof(float));
    for (int64_t j = 0; j < k; j++) counts[op.ids.row(r)[j]]++;
  }
  const int32_t wanted = linked_wanted(op, counts);
  int32_t* places = op.told_places.data();
  for (int64_t e = 0; e < n; e++) {
    const int32_t own = counts[e];
    int32_t ahead = 0;
    for (int64_t f = 0; f < n; f++) ahead += counts[f] > own || (counts[f] == own && f < e);
    const bool link = own > 0 && ahead < wanted;
    places[e] = link ? kLinkedPlace : op.slot_of.empty() ? -1 : op.slot_of.data()[e];
  }
  std::copy_n(places, n, op.place_of.data());
}

void run(const FetchExperts& op, Compute&) {
  int64_t n = 0;
  for (int64_t e = 0; e < op.place_of.cols; e++) {
    if (op.place_of.data()[e] != kLinkedPlace) continue;
    const int64_t from = op.linked_at.data()[e];
    op.staged_at.data()[e] = from;
    if (n == op.stage.rows) continue;
    uint8_t* to = op.stage.row(n++);
    std::memcpy(to, reinterpret_cast<const void*>(from), static_cast<size_t>(op.blob_bytes));
    op.staged_at.data()[e] = reinterpret_cast<int64_t>(to);
  }
}

}  // namespace strata::device::host
