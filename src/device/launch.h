// One queued operation: its arguments, the ranges it touches and where it was enqueued. Streams, graphs and checkers
// see operations only in this form.
#pragma once

#include <cstring>
#include <type_traits>

#include "base/source_site.h"
#include "device/ops/all.h"

namespace strata::device {

inline constexpr size_t kMaxOpBytes = 768;
inline constexpr int kMaxOpRanges = 20;

struct Launch {
  int op = 0;  // index into AllOps
  const char* name = "";
  SourceSite site;
  int n_ranges = 0;
  Range ranges[kMaxOpRanges];
  alignas(16) std::byte args[kMaxOpBytes];
};

namespace detail {

// Derives ranges from the views of an operation and holds them to the device.
class RangeCollector {
 public:
  RangeCollector(Launch& launch, const Device* device) : launch_(launch), device_(device) {}
  template <class T>
  void operator()(const In<T>& view) {
    if (!view.empty()) add(view.range(false));
  }
  template <class T>
  void operator()(const Out<T>& view) {
    if (!view.empty()) add(view.range(true));
  }
  template <class T>
  void operator()(const InOut<T>& view) {
    if (view.empty()) return;
    add(view.range(false));
    add(view.range(true));
  }
  void operator()(const Weight& weight) {
    if (!weight.empty()) add(weight.range());
  }
  // Memory that the operation reaches indirectly; footprint() tells the exact ranges when it runs.
  void operator()(const KvBlocks& blocks) {
    ASSERT(blocks.k->owner() == device_);
    ASSERT(blocks.v->owner() == device_);
  }
  void operator()(const ExpertSlots& slots) {
    ASSERT(slots.memory != nullptr || !slots.linked.empty());
    ASSERT(slots.memory == nullptr || slots.memory->owner() == device_);
    for (const Memory* linked : slots.linked) {
      ASSERT(linked->kind() == MemoryKind::kPinned || linked->owner() == device_);
    }
  }

 private:
  void add(const Range& range) {
    ASSERT(range.memory->owner() == device_);  // a view or weight of another device
    ASSERT(launch_.n_ranges < kMaxOpRanges);
    launch_.ranges[launch_.n_ranges++] = range;
  }
  Launch& launch_;
  const Device* device_;
};

}  // namespace detail

// The one wrapper every operation goes through: checks shapes and aliasing, derives the ranges.
template <class Op>
Launch make_launch(const Op& op, const Device* device, SourceSite site) {
  static_assert(std::is_trivially_copyable_v<Op>);
  static_assert(sizeof(Op) <= kMaxOpBytes);
  op.check();
  Launch launch;
  launch.op = op_index<Op>();
  launch.name = Op::kName;
  launch.site = site;
  detail::RangeCollector collect(launch, device);
  op.visit(collect);
  std::memcpy(launch.args, &op, sizeof(Op));
  return launch;
}

}  // namespace strata::device
