// Which experts of a layer the device computes, which of them over the link, and what the host is told.
#include <algorithm>
#include <cstring>
#include <utility>

#include "device/op_case.h"

namespace strata::test {
namespace {

constexpr int64_t kBucket = 6, kLive = 4, kUsed = 3, kExperts = 9, kDim = 37;

struct ShareForm {
  const char* name;
  bool cached;   // some experts are in slots
  bool linked;   // some of the others are in linked memory
  int32_t share; // of the missing ones, in percent
};

// The rule of ShareExperts, told the long way: a list in order of preference, cut where the share ends.
std::vector<int32_t> places(const ShareForm& form, const std::vector<int32_t>& ids, const std::vector<int32_t>& slot_of,
                            const std::vector<int64_t>& linked, const std::vector<int32_t>& share) {
  std::vector<int32_t> out = slot_of, order;
  int32_t missing = 0;
  const auto pairs = [&](int32_t e) { return std::count(ids.begin(), ids.end(), e); };
  for (int32_t e = 0; e < kExperts; e++) {
    if (pairs(e) == 0 || slot_of[static_cast<size_t>(e)] >= 0) continue;
    missing++;
    if (linked[static_cast<size_t>(e)] != 0) order.push_back(e);
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return pairs(a) > pairs(b); });
  const size_t n = form.linked ? static_cast<size_t>(share[static_cast<size_t>(missing)]) : 0;
  for (size_t i = 0; i < std::min(n, order.size()); i++) out[static_cast<size_t>(order[i])] = device::kLinkedPlace;
  return out;
}

void share_experts(device::Device& device, OpCases& cases, const ShareForm& form) {
  OpCase& c = add_case<device::ShareExperts>(device, cases, form.name);
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto x = c.grid<float>(kBucket, kDim);
  const auto live = c.count_grid();
  const auto slot_of = c.grid<int32_t>(1, kExperts);
  const auto linked = c.grid<int64_t>(1, kExperts);
  const auto share = c.grid<int32_t>(1, kExperts + 1);
  const auto place_of = c.grid<int32_t>(1, kExperts);
  const auto told_live = c.grid<int32_t>(1, 1);
  const auto told_ids = c.grid<int32_t>(kBucket, kUsed);
  const auto told_places = c.grid<int32_t>(1, kExperts);
  const auto told_x = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    for (int64_t r = 0; r < kBucket; r++) {
      // Some experts are wanted by several rows, some by none; rows past the live ones name no expert.
      const auto first = static_cast<int64_t>(random.below(4));
      for (int64_t j = 0; j < kUsed; j++) ids->at(r, j) = r < kLive ? static_cast<int32_t>(first + j * j) : -1;
    }
    x->fill_normal(random);
    live->at(0, 0) = kLive;
    for (int64_t e = 0; e < kExperts; e++) {
      slot_of->at(0, e) = form.cached && random.below(3) == 0 ? static_cast<int32_t>(e + 10) : -1;
      linked->at(0, e) = random.below(4) == 0 ? 0 : 4096 * (e + 1);
    }
    for (int32_t m = 0; m <= kExperts; m++) share->at(0, m) = m * form.share / 100;
  };
  c.enqueue = [=](device::Stream& s) {
    device::ShareExperts op{.ids = *ids, .x = *x, .live = *live, .slot_of = {}, .linked = {}, .share = {},
                            .place_of = *place_of, .told_live = *told_live, .told_ids = *told_ids,
                            .told_places = *told_places, .told_x = *told_x};
    if (form.cached) op.slot_of = *slot_of;
    if (form.linked) {
      op.linked = *linked;
      op.share = *share;
    }
    s.enqueue(op);
  };
  c.expect = [=] {
    const int64_t n = live->at(0, 0);
    std::vector<int32_t> routed, slots(kExperts, -1);
    for (int64_t p = 0; p < n * kUsed; p++) routed.push_back(ids->at(p / kUsed, p % kUsed));
    if (form.cached) slots.assign(slot_of->row(0), slot_of->row(0) + kExperts);
    const std::vector<int64_t> addresses(linked->row(0), linked->row(0) + kExperts);
    const std::vector<int32_t> shares(share->row(0), share->row(0) + kExperts + 1);
    const std::vector<int32_t> wanted = places(form, routed, slots, addresses, shares);
    std::vector<Want> wants;
    const auto want_int = [&](const int32_t* at, int32_t value) {
      wants.push_back({at, double(value), 0, Want::Kind::kI32});
    };
    want_int(told_live->row(0), static_cast<int32_t>(n));
    for (int64_t e = 0; e < kExperts; e++) {
      want_int(place_of->row(0) + e, wanted[static_cast<size_t>(e)]);
      want_int(told_places->row(0) + e, wanted[static_cast<size_t>(e)]);
    }
    for (int64_t r = 0; r < n; r++) {
      for (int64_t j = 0; j < kUsed; j++) want_int(&told_ids->at(r, j), ids->at(r, j));
      want_row(wants, told_x->row(r), {x->row(r), x->row(r) + kDim}, 0);
    }
    return wants;
  };
}

// Three linked experts and room for two: the third one stays where it is.
void fetch_experts(device::Device& device, OpCases& cases) {
  OpCase& c = add_case<device::FetchExperts>(device, cases, "");
  constexpr int64_t kBytes = 208, kPlaces = 2;
  constexpr int32_t kLinked = device::kLinkedPlace;
  const std::vector<int32_t> places = {3, kLinked, -1, kLinked, kLinked, -1, 0, -1, 1};
  const auto place_of = c.grid<int32_t>(1, kExperts);
  const auto blobs = c.packed<uint8_t>(kExperts, kBytes);
  const auto stage = c.packed<uint8_t>(kPlaces, kBytes + 16);
  const auto linked_at = c.grid<int64_t>(1, kExperts), staged_at = c.grid<int64_t>(1, kExperts);
  const auto memories =
      std::make_shared<std::vector<const device::Memory*>>(std::vector<const device::Memory*>{blobs->memory()});
  c.fill = [=](Random& random) {
    place_of->set_row(0, places);
    for (int64_t e = 0; e < kExperts; e++) {
      for (int64_t i = 0; i < kBytes; i++) blobs->at(e, i) = static_cast<uint8_t>(random.below(256));
      linked_at->at(0, e) = reinterpret_cast<int64_t>(blobs->row(e));
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::FetchExperts{.place_of = *place_of, .linked = *memories, .linked_at = *linked_at,
                                   .blob_bytes = kBytes, .stage = *stage, .staged_at = *staged_at});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const int64_t staged[] = {1, 3};
    for (int64_t p = 0; p < kPlaces; p++) {
      for (int64_t i = 0; i < kBytes; i += 4) {
        int32_t word;
        std::memcpy(&word, blobs->row(staged[p]) + i, sizeof word);
        wants.push_back({stage->row(p) + i, double(word), 0, Want::Kind::kI32});
      }
    }
    const std::pair<int64_t, const uint8_t*> found[] = {{1, stage->row(0)}, {3, stage->row(1)}, {4, blobs->row(4)}};
    for (const auto& [expert, address] : found) {
      int32_t words[2];
      std::memcpy(words, &address, sizeof words);
      for (int w = 0; w < 2; w++) {
        const auto* at = reinterpret_cast<const int32_t*>(&staged_at->at(0, expert)) + w;
        wants.push_back({at, double(words[w]), 0, Want::Kind::kI32});
      }
    }
    return wants;
  };
}

}  // namespace

void add_fetch_cases(device::Device& device, OpCases& cases) { fetch_experts(device, cases); }

void add_share_cases(device::Device& device, OpCases& cases) {
  share_experts(device, cases, {"_host_alone", false, false, 0});
  share_experts(device, cases, {"_cached", true, false, 0});
  share_experts(device, cases, {"_cached_and_linked", true, true, 50});
  share_experts(device, cases, {"_all_linked", false, true, 100});
}

}  // namespace strata::test
