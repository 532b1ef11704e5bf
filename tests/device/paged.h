// Sequences of different lengths over a paged KV cache whose blocks lie in no order.
#pragma once

#include <numeric>

#include "device/op_case.h"

namespace strata::test {

struct PagedShape {
  int n_kv_heads = 2;
  int key_dim = 8;
  int value_dim = 8;
  kernels::KvType type = kernels::KvType::kF32;
  int block_tokens = 4;
  int64_t bucket = 8;        // rows of the step
  int32_t live = 6;          // rows in use
  int64_t max_position = 30;
};

// Rows of `kSlots` sequences. Blocks of different sequences are mixed, and two blocks of the cache belong to nobody.
class Paged {
 public:
  static constexpr int64_t kSlots = 3;

  Paged(OpCase& c, const PagedShape& s)
      : shape(s), blocks_per_slot(s.max_position / s.block_tokens + 1), n_blocks(kSlots * blocks_per_slot + 2),
        live(c.count_grid()), positions(c.grid<int32_t>(1, s.bucket)), slots(c.grid<int32_t>(1, s.bucket)),
        table(c.grid<int32_t>(kSlots, blocks_per_slot)) {
    const int64_t tokens = n_blocks * s.block_tokens;
    if (s.type == kernels::KvType::kF32) {
      k32 = c.packed<float>(tokens, int64_t{s.n_kv_heads} * s.key_dim);
      v32 = c.packed<float>(tokens, int64_t{s.n_kv_heads} * s.value_dim);
    } else {
      k16 = c.packed<uint16_t>(tokens, int64_t{s.n_kv_heads} * s.key_dim);
      v16 = c.packed<uint16_t>(tokens, int64_t{s.n_kv_heads} * s.value_dim);
    }
  }

  // The step's rows: any slot, any position, no two rows at the same place.
  void fill_map(Random& random) const {
    std::vector<int32_t> blocks(static_cast<size_t>(n_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[random.below(i)]);
    size_t next = 0;
    for (int64_t slot = 0; slot < kSlots; slot++) {
      for (int64_t b = 0; b < blocks_per_slot; b++) table->at(slot, b) = blocks[next++];
    }
    live->at(0, 0) = shape.live;
    const auto places = static_cast<uint64_t>(shape.max_position + 1);
    for (int64_t r = 0; r < shape.live; r++) {
      // Rows differ in their position modulo the number of rows.
      const uint64_t step = random.below(places / static_cast<uint64_t>(shape.live));
      positions->at(0, r) = static_cast<int32_t>(step * static_cast<uint64_t>(shape.live) + static_cast<uint64_t>(r));
      slots->at(0, r) = static_cast<int32_t>(random.below(kSlots));
    }
  }

  // Keys and values at every position of every sequence; what belongs to nobody stays NaN.
  void fill_cache(Random& random) const {
    for (int64_t slot = 0; slot < kSlots; slot++) {
      for (int64_t p = 0; p <= shape.max_position; p++) fill_token(token(slot, p), random);
    }
  }

  int64_t token(int64_t slot, int64_t position) const {
    return int64_t{table->at(slot, position / shape.block_tokens)} * shape.block_tokens + position % shape.block_tokens;
  }
  int64_t token_of_row(int64_t r) const { return token(slots->at(0, r), positions->at(0, r)); }

  float key(int64_t token, int64_t i) const { return k32 ? k32->at(token, i) : quant::f16_to_f32(k16->at(token, i)); }
  float value(int64_t token, int64_t i) const { return v32 ? v32->at(token, i) : quant::f16_to_f32(v16->at(token, i)); }
  const void* key_address(int64_t token) const { return k32 ? static_cast<void*>(k32->row(token)) : k16->row(token); }
  const void* value_address(int64_t token) const { return v32 ? static_cast<void*>(v32->row(token)) : v16->row(token); }

  device::RowMap row_map() const { return {live->view(), positions->view(), slots->view(), table->view()}; }
  device::KvBlocks kv() const {
    device::KvBlocks kv;
    kv.k = k32 ? k32->memory() : k16->memory();
    kv.v = v32 ? v32->memory() : v16->memory();
    kv.type = shape.type;
    kv.block_tokens = shape.block_tokens;
    kv.n_blocks = static_cast<int>(n_blocks);
    kv.n_kv_heads = shape.n_kv_heads;
    kv.key_dim = shape.key_dim;
    kv.value_dim = shape.value_dim;
    return kv;
  }

  PagedShape shape;
  int64_t blocks_per_slot;
  int64_t n_blocks;
  std::shared_ptr<Grid<int32_t>> live, positions, slots, table;
  std::shared_ptr<Grid<float>> k32, v32;
  std::shared_ptr<Grid<uint16_t>> k16, v16;

 private:
  void fill_token(int64_t token, Random& random) const {
    const auto fill = [&](const auto& f32, const auto& f16) {
      const int64_t n = f32 ? f32->cols() : f16->cols();
      for (int64_t i = 0; i < n; i++) {
        const auto x = static_cast<float>(random.normal());
        if (f32) f32->at(token, i) = x;
        else f16->at(token, i) = quant::f32_to_f16(x);
      }
    };
    fill(k32, k16);
    fill(v32, v16);
  }
};

}  // namespace strata::test
