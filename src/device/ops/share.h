// How the experts of a layer are shared out between a device and its host.
#pragma once

#include "device/ops/moe.h"

namespace strata::device {

// place_of[e] = slot_of[e] where that is a slot. Of the m other experts that pairs of the live rows go to, share[m] are
// linked (kLinkedPlace): those with most pairs, of equals those in front, as far as they have an address.
// All others are the host's: -1. Without rows that share anything out everything stays as slot_of says.
//
// The host is told what it needs for its part, in pinned memory that the device writes over the link: the number of
// live rows, their ids and inputs, and the places. One pass, so that it is on its way early.
struct ShareExperts {
  static constexpr const char* kName = "share_experts";
  In<int32_t> ids;      // [rows][k], in [0, n_experts)
  In<float> x;          // [rows][dim]
  In<int32_t> live;     // [1]
  In<int32_t> slot_of;  // [1][n_experts] or -1; empty: no expert is in a slot
  In<int64_t> linked;   // [1][n_experts] address of each expert in linked memory, or 0; empty: none is there
  In<int32_t> share;    // [1][n_experts + 1]; empty where `linked` is
  Out<int32_t> place_of;     // [1][n_experts]
  Out<int32_t> told_live;    // [1]
  Out<int32_t> told_ids;     // [rows][k]
  Out<int32_t> told_places;  // [1][n_experts]
  Out<float> told_x;         // [rows][dim]
  template <class V>
  void visit(V& v) const {
    v(ids);
    v(x);
    v(live);
    v(slot_of);
    v(linked);
    v(share);
    v(place_of);
    v(told_live);
    v(told_ids);
    v(told_places);
    v(told_x);
  }
  void check() const {
    const int64_t n = place_of.cols;
    ASSERT(x.rows == ids.rows);
    ASSERT(slot_of.empty() || slot_of.cols == n);
    ASSERT(linked.empty() || linked.cols == n);
    ASSERT(linked.empty() == share.empty());
    ASSERT(share.empty() || share.cols == n + 1);
    ASSERT(told_places.cols == n);
    ASSERT(told_ids.rows >= ids.rows);
    ASSERT(told_ids.cols == ids.cols);
    ASSERT(told_x.rows >= x.rows);
    ASSERT(told_x.cols == x.cols);
    ASSERT(!overlap(x, told_x));
    ASSERT(!overlap(slot_of, place_of));
  }
};

// Experts that are linked come to the device before they are computed from: kernels of products ask for a few bytes at
// a time, which uses a link badly. The first stage.rows of them in `place_of` go into a row of `stage` each; the others
// stay to be read where they are. For every linked expert staged_at says where its bytes are then.
struct FetchExperts {
  static constexpr const char* kName = "fetch_experts";
  In<int32_t> place_of;  // [1][n_experts] of ShareExperts
  std::span<const Memory* const> linked;  // pinned; what holds the span outlives all uses
  In<int64_t> linked_at;  // [1][n_experts] address of each linked expert in one of them
  int64_t blob_bytes = 0;  // of an expert, at most stage.cols
  Out<uint8_t> stage;      // [places][bytes]
  Out<int64_t> staged_at;  // [1][n_experts]
  template <class V>
  void visit(V& v) const {
    v(place_of);
    v(linked_at);
    v(stage);
    v(staged_at);
  }
  void check() const {
    ASSERT(linked_at.cols == place_of.cols);
    ASSERT(staged_at.cols == place_of.cols);
    ASSERT(blob_bytes <= stage.cols);
    ASSERT(blob_bytes % 16 == 0);
    ASSERT(stage.stride % 16 == 0);
  }
  void footprint(RangeSink& sink) const;
};

// The range of a linked expert. Asserts that it lies in one of the memories.
Range linked_range(std::span<const Memory* const> memories, int64_t address, size_t bytes);

}  // namespace strata::device
