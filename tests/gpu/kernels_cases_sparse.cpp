// Sparse attention in the shapes of a large model: prompts and single rows, contexts far beyond what rows may choose.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/op_segments.h"
#include "device/paged.h"
#include "kernels_cases.h"
#include "kernels_rig.h"

namespace strata::test {

using device::host::HostDevice;

namespace {

constexpr int kBlock = 4;

// Rows of a prompt in the middle of a sequence, then single rows of others.
void place_prompt(const Paged& paged, int64_t first_position) {
  const PagedShape& s = paged.shape;
  for (int64_t r = 0; r < s.live; r++) {
    const bool single = r >= s.live - 3;
    paged.slots->at(0, r) = static_cast<int32_t>(single ? r % 2 : 2);
    paged.positions->at(0, r) = static_cast<int32_t>(single ? s.max_position - 5 * (s.live - r) : first_position + r);
  }
}

std::vector<int64_t> live_rows(const Paged& paged) {
  std::vector<int64_t> rows(static_cast<size_t>(paged.shape.live));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

void add_long_index(HostDevice& host, OpCases& cases, std::vector<Segment> list, const char* name) {
  OpCase& c = add_case<device::IndexAppend>(host, cases, name);
  constexpr int64_t kDim = 128, kHeads = 4, kPairs = 32, kKvBlocks = 12;
  constexpr int kKvTokens = 16;
  const Segments segments(c, std::move(list));
  const int64_t rows = segments.rows();
  const auto q = c.grid<float>(rows, kHeads * kDim), k = c.grid<float>(rows, kDim);
  const auto gains = c.grid<float>(2, kDim);
  const auto cos_sin = c.grid<float>(rows, 2 * kPairs);
  const auto inv_freq = c.grid<float>(1, kPairs);
  const auto positions = c.grid<int32_t>(1, rows), slots = c.grid<int32_t>(1, rows);
  const auto table = c.grid<int32_t>(Segments::kSlots, kKvBlocks);
  const auto tail = c.grid<float>(Segments::kSlots, (kBlock - 1) * kDim);
  const auto keys = c.grid<float>(Segments::kSlots * kKvBlocks * kKvTokens / kBlock, kDim);
  c.fill = [=](Random& random) {
    segments.fill();
    for (const auto& grid : {q, k, gains, tail}) grid->fill_normal(random);
    for (int64_t p = 0; p < kPairs; p++) inv_freq->at(0, p) = std::pow(0.8f, static_cast<float>(p));
    for (int64_t i = 0; i < Segments::kSlots * kKvBlocks; i++) {
      table->at(i / kKvBlocks, i % kKvBlocks) = static_cast<int32_t>(i * 7 % (Segments::kSlots * kKvBlocks));
    }
    for (const Segment& s : segments.list) {
      for (int32_t r = s.first; r < s.first + s.rows; r++) {
        positions->at(0, r) = 3 * s.slot + 2 + r - s.first;
        slots->at(0, r) = s.slot;
        float* cos = cos_sin->row(r);
        kernels::rope_angles(positions->at(0, r), inv_freq->row(0), kPairs, 1, cos, cos + kPairs);
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::IndexAppend{.q = *q, .k = *k, .q_norm = gains->view().slice(0, 1),
                                  .k_norm = gains->view().slice(1, 1), .cos_sin = *cos_sin, .inv_freq = *inv_freq,
                                  .rows = {{}, *positions, *slots, *table}, .segments = segments.map(), .tail = *tail,
                                  .index = {.keys = *keys, .kv_block_tokens = kKvTokens, .block = kBlock},
                                  .magnitude = 1, .eps = 1e-6f});
  };
  c.expect = [=, &host, &c] {
    std::vector<int64_t> all_rows, all_slots, all_keys;
    for (const Segment& s : segments.list) {
      all_slots.push_back(s.slot);
      for (int32_t r = s.first; r < s.first + s.rows; r++) {
        all_rows.push_back(r);
        const int64_t end = positions->at(0, r) + 1;
        if (end % kBlock != 0) continue;
        const int64_t first = end - kBlock;
        all_keys.push_back((int64_t{table->at(s.slot, first / kKvTokens)} * kKvTokens + first % kKvTokens) / kBlock);
      }
    }
    const auto close = [](int64_t, int64_t) { return 2e-5; };
    auto wants = wants_of_host(host, c, *q, all_rows, close);
    for (const auto& more : {wants_of_host(host, c, *keys, all_keys, close),
                             wants_of_host(host, c, *tail, all_slots, [](int64_t, int64_t) { return 0.0; })}) {
      wants.insert(wants.end(), more.begin(), more.end());
    }
    return wants;
  };
}

// Small whole numbers, whose sums are exact in any order: every tie is one.
void add_long_select(HostDevice& host, OpCases& cases, const PagedShape& shape, int64_t first_position, int most,
                     const char* name) {
  OpCase& c = add_case<device::SelectBlocks>(host, cases, name);
  constexpr int64_t kDim = 128, kHeads = 4;
  const Paged paged(c, shape);
  const auto q = c.grid<float>(shape.bucket, kHeads * kDim);
  const auto keys = c.grid<float>(paged.n_blocks * shape.block_tokens / kBlock, kDim);
  const auto chosen = c.grid<int32_t>(shape.bucket, most + 2);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    place_prompt(paged, first_position);
    for (const auto& grid : {q, keys}) {
      for (int64_t r = 0; r < grid->rows(); r++) {
        for (int64_t i = 0; i < grid->cols(); i++) grid->at(r, i) = static_cast<float>(random.below(3)) - 1;
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::SelectBlocks{.q = *q, .rows = paged.row_map(),
                                   .index = {.keys = *keys, .kv_block_tokens = shape.block_tokens, .block = kBlock},
                                   .chosen = *chosen, .most = most});
  };
  c.expect = [=, &host, &c] { return wants_of_host_ints(host, c, *chosen, live_rows(paged)); };
}

// Each row has chosen blocks of its own.
void add_long_sparse(HostDevice& host, OpCases& cases, const PagedShape& shape, int64_t first_position, int n_heads,
                     bool gated, int most, const char* name) {
  OpCase& c = add_case<device::SparseAttention>(host, cases, name);
  const Paged paged(c, shape);
  const int stride = shape.key_dim + (gated ? shape.value_dim : 0);
  const auto q = c.grid<float>(shape.bucket, int64_t{n_heads} * stride);
  const auto chosen = c.grid<int32_t>(shape.bucket, most + 2);
  const auto y = c.grid<float>(shape.bucket, int64_t{n_heads} * shape.value_dim);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    place_prompt(paged, first_position);
    paged.fill_cache(random);
    q->fill_normal(random);
    for (int64_t r = 0; r < shape.live; r++) {
      const int64_t n_tokens = paged.positions->at(0, r) + 1;
      std::vector<int64_t> blocks(static_cast<size_t>(n_tokens / kBlock));
      std::iota(blocks.begin(), blocks.end(), 0);
      const auto n = std::min(blocks.size(), static_cast<size_t>(most));
      for (size_t i = 0; i < n && n < blocks.size(); i++) {
        std::swap(blocks[i], blocks[i + random.below(blocks.size() - i)]);
      }
      blocks.resize(n);
      std::sort(blocks.begin(), blocks.end());
      if (n_tokens % kBlock != 0) blocks.push_back(n_tokens / kBlock);
      chosen->at(r, 0) = static_cast<int32_t>(n);
      for (size_t i = 0; i < blocks.size(); i++) {
        chosen->at(r, static_cast<int64_t>(i) + 1) =
            static_cast<int32_t>(paged.token(paged.slots->at(0, r), blocks[i] * kBlock) / kBlock);
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::SparseAttention{.q = *q, .chosen = *chosen, .rows = paged.row_map(), .kv = paged.kv(), .y = *y,
                                      .n_heads = n_heads, .q_head_stride = stride, .gated = gated, .block = kBlock,
                                      .scale = 1 / std::sqrt(static_cast<float>(shape.key_dim))});
  };
  c.expect = [=, &host, &c] {
    return wants_of_host(host, c, *y, live_rows(paged), [](int64_t, int64_t) { return 2e-5; });
  };
}

}  // namespace

void add_sparse_prompt_cases(HostDevice& host, OpCases& cases) {
  using kernels::KvType;
  add_long_index(host, cases, {{0, 0, 1}, {3, 1, 3}, {1, 5, 1}}, "_few_rows");
  add_long_index(host, cases, {{2, 0, 70}, {0, 70, 30}, {4, 101, 1}}, "_many_rows");
  const auto context = [](int64_t bucket, int64_t max_position) {
    return PagedShape{.block_tokens = 16, .bucket = bucket, .live = static_cast<int32_t>(bucket - 1),
                      .max_position = max_position};
  };
  add_long_select(host, cases, context(5, 9000), 5000, 512, "_few_rows");
  add_long_select(host, cases, context(60, 4000), 2030, 512, "_many_rows");  // from rows that see all to others
  add_long_select(host, cases, context(40, 600), 30, 16, "_many_of_a_small_choice");
  const auto shape = [&](int64_t bucket, int64_t max_position, int dim, int kv_heads, KvType type) {
    PagedShape s = context(bucket, max_position);
    s.key_dim = s.value_dim = dim;
    s.n_kv_heads = kv_heads;
    s.type = type;
    return s;
  };
  add_long_sparse(host, cases, shape(5, 3000, 256, 2, KvType::kF16), 2500, 24, true, 512, "_few_f16");
  add_long_sparse(host, cases, shape(34, 1500, 256, 2, KvType::kF16), 510, 24, true, 128, "_many_f16");
  add_long_sparse(host, cases, shape(150, 700, 128, 2, KvType::kF16), 470, 24, true, 128, "_prompt_f16");
  add_long_sparse(host, cases, shape(34, 700, 64, 2, KvType::kF16), 20, 8, false, 16, "_many_small_f16");
  add_long_sparse(host, cases, shape(34, 700, 64, 1, KvType::kF32), 50, 6, true, 16, "_many_f32");
  add_long_sparse(host, cases, shape(34, 700, 64, 2, KvType::kQ8_0), 50, 4, false, 16, "_many_q8_0");
  add_long_sparse(host, cases, shape(34, 700, 40, 3, KvType::kBf16), 50, 9, true, 16, "_many_bf16");
}

}  // namespace strata::test
