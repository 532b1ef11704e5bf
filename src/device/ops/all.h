// The list of operations: one row each. Devices build their tables from it, so an operation that a device does not
// implement fails to compile.
#pragma once

#include <array>

#include "device/ops/attention.h"
#include "device/ops/basic.h"
#include "device/ops/delta_net.h"
#include "device/ops/hyper.h"
#include "device/ops/latent.h"
#include "device/ops/moe.h"
#include "device/ops/ngram.h"
#include "device/ops/share.h"
#include "device/ops/sparse_attention.h"

namespace strata::device {

template <class... Ops>
struct OpList {
  static constexpr int kCount = sizeof...(Ops);
  template <class Op>
  static constexpr int index() {
    constexpr bool same[] = {std::is_same_v<Op, Ops>...};
    for (int i = 0; i < kCount; i++) {
      if (same[i]) return i;
    }
    return -1;
  }
};

using AllOps = OpList<Embed, RmsNorm, MatMul, Project, SiluMul, AddGated, GatherRows, RopeAngles, RopeAppend, Attention,
                      AppendAttend, Router, ShareExperts, FetchExperts, ExpertFfn, Combine, DeltaConv, DeltaGates,
                      DeltaNet, GatedNorm, HeadMatMul, LatentAttend, StreamGate, DistantConv, HyperMix, HyperAdd,
                      IndexAppend, SelectBlocks, SparseAttention>;

// A device's table of the operations, by op_index(): make.operator()<Op>() gives the row of one.
template <class Make, class... Ops>
constexpr auto op_table(OpList<Ops...>, const Make& make) {
  return std::array{make.template operator()<Ops>()...};
}

template <class Op>
constexpr int op_index() {
  constexpr int index = AllOps::index<Op>();
  static_assert(index >= 0, "the operation is missing in AllOps");
  return index;
}

}  // namespace strata::device
