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
    k = c.packed<uint8_t>(tokens, bytes_of_row(s.key_dim));
    v = c.packed<uint8_t>(tokens, bytes_of_row(s.value_dim));
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

  float key(int64_t token, int64_t i) const { return element(k->row(token), i); }
  float value(int64_t token, int64_t i) const { return element(v->row(token), i); }
  // Of element i; types without blocks only.
  const void* key_address(int64_t token, int64_t i) const { return k->row(token) + kernels::kv_bytes(shape.type, i); }
  const void* value_address(int64_t token, int64_t i) const { return v->row(token) + kernels::kv_bytes(shape.type, i); }

  device::RowMap row_map() const { return {live->view(), positions->view(), slots->view(), table->view()}; }
  device::KvBlocks kv() const {
    device::KvBlocks kv;
    kv.k = k->memory();
    kv.v = v->memory();
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
  std::shared_ptr<Grid<uint8_t>> k, v;  // [tokens][bytes]

 private:
  int64_t bytes_of_row(int dim) const {
    return static_cast<int64_t>(kernels::kv_bytes(shape.type, int64_t{shape.n_kv_heads} * dim));
  }
  float element(const uint8_t* row, int64_t i) const {
    using kernels::KvType;
    const auto at = [&](int64_t n) { return row + kernels::kv_bytes(shape.type, n); };
    switch (shape.type) {
      case KvType::kF32: return load_le<float>(at(i));
      case KvType::kF16: return quant::f16_to_f32(load_le<uint16_t>(at(i)));
      case KvType::kBf16: return quant::bf16_to_f32(load_le<uint16_t>(at(i)));
      case KvType::kQ8_0: break;
    }
    const uint8_t* block = at(i / 32 * 32);
    return quant::f16_to_f32(load_le<uint16_t>(block)) * static_cast<int8_t>(block[2 + i % 32]);
  }
  void fill_token(int64_t token, Random& random) const {
    const auto fill = [&](uint8_t* to, int dim) {
      std::vector<float> row(static_cast<size_t>(shape.n_kv_heads * dim));
      for (float& x : row) x = static_cast<float>(random.normal());
      const auto n = static_cast<int64_t>(row.size());
      kernels::kernels_for(kernels::Isa::kScalar).kv_store(shape.type, row.data(), to, n);
    };
    fill(k->row(token), shape.key_dim);
    fill(v->row(token), shape.value_dim);
  }
};

}  // namespace strata::test
