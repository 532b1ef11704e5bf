// Times of operations that only some architectures have, in the shapes of their large models.
#include <numeric>
#include <string>

#include "kernels_bench_rig.h"

namespace strata::test {
namespace {

std::string named(const char* what, int64_t rows, int64_t context) {
  char text[96];
  if (context > 0) {
    std::snprintf(text, sizeof text, "%s, %ld rows at %ld", what, static_cast<long>(rows), static_cast<long>(context));
  } else {
    std::snprintf(text, sizeof text, "%s, %ld rows", what, static_cast<long>(rows));
  }
  return text;
}

// Rows of one sequence that end a context, and a table of KV blocks in order.
class Sequence {
 public:
  static constexpr int kBlockTokens = 32;
  Sequence(int64_t rows, int64_t context)
      : n_rows(rows), n_blocks(context / kBlockTokens), map_(static_cast<size_t>(4 + 2 * rows + n_blocks) * 4) {
    std::vector<int32_t> values(static_cast<size_t>(4 + 2 * rows + n_blocks));
    values[0] = static_cast<int32_t>(rows);
    for (int64_t r = 0; r < rows; r++) values[static_cast<size_t>(4 + r)] = static_cast<int32_t>(context - rows + r);
    std::iota(values.begin() + 4 + 2 * rows, values.end(), 0);
    map_.set(values);
  }
  device::In<int32_t> live() const { return ints(0, 1); }
  device::RowMap rows() const {
    return {live(), ints(4, n_rows), ints(4 + n_rows, n_rows), ints(4 + 2 * n_rows, n_blocks)};
  }
  const int64_t n_rows, n_blocks;

 private:
  device::View<int32_t> ints(int64_t first, int64_t n) const {
    return device::view_of<int32_t>(map_.memory(), 1, n, static_cast<size_t>(first) * 4);
  }
  const Block map_;
};

void bench_mix(Bench& bench, int64_t rows) {
  constexpr int64_t kDim = 2560, kStreams = 4, kWidth = kStreams * kDim, kRank = 320, kCopies = 24;
  Random random(1);
  const auto row_bytes = [](int64_t cols) { return quant::row_bytes(quant::Type::Q8_0, static_cast<size_t>(cols)); };
  const size_t down = kRank * row_bytes(kWidth), up = kWidth * row_bytes(kRank), inject = kStreams * kWidth * 4;
  const Block w(kCopies * (down + up + inject)), gain(kWidth * 4), live(4);
  const auto some = any_weights(quant::Type::Q8_0, kRank * kWidth, random);
  for (size_t i = 0; i < kCopies; i++) {
    w.set(some, i * (down + up + inject));
    w.set(some, i * (down + up + inject) + down);
  }
  const auto floats = [&](int64_t cols) { return std::make_unique<Block>(static_cast<size_t>(rows * cols) * 4); };
  const auto x = floats(kWidth), normed = floats(kWidth), low = floats(kRank), gates = floats(kWidth), y = floats(kDim),
             amounts = floats(kStreams);
  x->set(normals(static_cast<size_t>(rows * kWidth), random));
  gain.set(normals(kWidth, random));
  live.set(std::vector<int32_t>{static_cast<int32_t>(rows)});
  const double us = bench.time(kCopies, [&](int i) {
    const size_t at = static_cast<size_t>(i) * (down + up + inject);
    using quant::Type;
    run(device::HyperMix{
            .x = x->view<float>(rows, kWidth),
            .gain = gain.view<float>(1, kWidth),
            .down = {&w.memory(), at, Type::Q8_0, kRank, kWidth, row_bytes(kWidth), device::Rounding::kOnce},
            .up = {&w.memory(), at + down, Type::Q8_0, kWidth, kRank, row_bytes(kRank), device::Rounding::kOnce},
            .inject = {&w.memory(), at + down + up, Type::F32, kStreams, kWidth, kWidth * 4},
            .live = live.view<int32_t>(1, 1),
            .normed = normed->view<float>(rows, kWidth),
            .low = low->view<float>(rows, kRank),
            .gates = gates->view<float>(rows, kWidth),
            .y = y->view<float>(rows, kDim),
            .amounts = amounts->view<float>(rows, kStreams),
            .n_streams = kStreams,
            .eps = 1e-6f},
        bench.context());
  });
  bench.print(named("hyper mix 4 x 2560 by 320", rows, 0).c_str(), us, static_cast<double>(down + up + inject),
              4.0 * static_cast<double>(rows * kWidth * kRank));
}

// The choice of 512 blocks of 4 tokens, and the attention of 24 heads to them.
void bench_choice(Bench& bench, int64_t rows, int64_t context) {
  constexpr int kDim = 128, kHeads = 4, kBlock = 4, kMost = 512, kHeadDim = 256, kKvHeads = 2, kQueries = 24;
  Random random(2);
  const Sequence sequence(rows, context);
  const Block q(static_cast<size_t>(rows * kHeads * kDim) * 4), keys(static_cast<size_t>(context / kBlock * kDim) * 4),
      chosen(static_cast<size_t>(rows * (kMost + 2)) * 4);
  q.set(normals(static_cast<size_t>(rows * kHeads * kDim), random));
  keys.set(normals(static_cast<size_t>(context / kBlock * kDim), random));
  const double us = bench.time(rows > 64 ? 2 : 16, [&](int) {
    run(device::SelectBlocks{.q = q.view<float>(rows, kHeads * kDim), .rows = sequence.rows(),
                             .index = {.keys = keys.view<float>(context / kBlock, kDim),
                                       .kv_block_tokens = Sequence::kBlockTokens, .block = kBlock},
                             .chosen = chosen.view<int32_t>(rows, kMost + 2), .most = kMost},
        bench.context());
  });
  const double products = static_cast<double>(rows * (context / kBlock) * kHeads * kDim);
  bench.print(named("select blocks", rows, context).c_str(), us, static_cast<double>(keys.memory().bytes()),
              2 * products);

  const Block cache_k(static_cast<size_t>(context * kKvHeads * kHeadDim) * 2), cache_v(cache_k.memory().bytes());
  for (const Block* cache : {&cache_k, &cache_v}) {
    std::vector<uint16_t> halves(cache->memory().bytes() / 2);
    for (uint16_t& h : halves) h = quant::f32_to_f16(static_cast<float>(random.uniform()) - 0.5f);
    cache->set(halves);
  }
  const Block queries(static_cast<size_t>(rows * kQueries * 2 * kHeadDim) * 4),
      y(static_cast<size_t>(rows * kQueries * kHeadDim) * 4);
  queries.set(normals(static_cast<size_t>(rows * kQueries * 2 * kHeadDim), random));
  device::KvBlocks kv;
  kv.k = &cache_k.memory();
  kv.v = &cache_v.memory();
  kv.type = kernels::KvType::kF16;
  kv.block_tokens = Sequence::kBlockTokens;
  kv.n_blocks = static_cast<int>(sequence.n_blocks);
  kv.n_kv_heads = kKvHeads;
  kv.key_dim = kv.value_dim = kHeadDim;
  const double attend_us = bench.time(rows > 64 ? 2 : 16, [&](int) {
    run(device::SparseAttention{.q = queries.view<float>(rows, kQueries * 2 * kHeadDim),
                                .chosen = chosen.view<int32_t>(rows, kMost + 2), .rows = sequence.rows(), .kv = kv,
                                .y = y.view<float>(rows, kQueries * kHeadDim), .n_heads = kQueries,
                                .q_head_stride = 2 * kHeadDim, .gated = true, .block = kBlock, .scale = 0.0625f},
        bench.context());
  });
  const double seen = static_cast<double>(std::min<int64_t>(context, kMost * kBlock) * rows);
  bench.print(named("sparse attention", rows, context).c_str(), attend_us, seen * kKvHeads * kHeadDim * 4,
              4 * seen * kQueries * kHeadDim);
}

// A layer's attention of 128 heads to latents of 512 values, and one of the products of the heads.
void bench_latent(Bench& bench, int n_heads, int64_t rows, int64_t context) {
  constexpr int kLatent = 512, kRot = 64, kNope = 128, kKey = kLatent + kRot;
  Random random(3);
  const Sequence sequence(rows, context);
  const auto floats = [&](int64_t cols) { return std::make_unique<Block>(static_cast<size_t>(rows * cols) * 4); };
  const auto heads = floats(n_heads * (kNope + kRot)), q = floats(n_heads * kKey), latent = floats(kKey),
             y = floats(n_heads * kLatent), cos_sin = floats(kRot);
  for (const auto* block : {&heads, &q, &latent}) (*block)->set(normals((*block)->memory().bytes() / 4, random));
  const Block gain(kLatent * 4), cache(static_cast<size_t>(context * kKey) * 2);
  std::vector<uint16_t> halves(cache.memory().bytes() / 2);
  for (uint16_t& h : halves) h = quant::f32_to_f16(static_cast<float>(random.uniform()) - 0.5f);
  cache.set(halves);
  device::KvBlocks kv;
  kv.k = kv.v = &cache.memory();
  kv.type = kernels::KvType::kF16;
  kv.block_tokens = Sequence::kBlockTokens;
  kv.n_blocks = static_cast<int>(sequence.n_blocks);
  kv.n_kv_heads = 1;
  kv.key_dim = kKey;
  kv.value_dim = kLatent;
  kv.values_in_keys = true;
  const double us = bench.time(rows > 64 ? 1 : 16, [&](int) {
    run(device::LatentAttend{.heads = heads->view<float>(rows, n_heads * (kNope + kRot)),
                             .q = q->view<float>(rows, n_heads * kKey), .latent = latent->view<float>(rows, kKey),
                             .gain = gain.view<float>(1, kLatent), .cos_sin = cos_sin->view<float>(rows, kRot),
                             .rows = sequence.rows(), .kv = kv, .y = y->view<float>(rows, n_heads * kLatent),
                             .n_heads = n_heads, .scale = 0.1f, .eps = 1e-6f},
        bench.context());
  });
  const double seen = static_cast<double>(rows * context - rows * (rows - 1) / 2);
  const std::string what = "latent attention, " + std::to_string(n_heads) + " heads";
  bench.print(named(what.c_str(), rows, context).c_str(), us, static_cast<double>(cache.memory().bytes()),
              2 * seen * n_heads * (kKey + kLatent));

  const size_t row_bytes = quant::row_bytes(quant::Type::Q8_0, kNope);
  const size_t bytes = static_cast<size_t>(n_heads) * kLatent * row_bytes;
  constexpr int kCopies = 16;
  const Block w(kCopies * bytes);
  const auto some = any_weights(quant::Type::Q8_0, static_cast<size_t>(n_heads) * kLatent * kNope, random);
  for (size_t i = 0; i < kCopies; i++) w.set(some, i * bytes);
  const double product_us = bench.time(kCopies, [&](int i) {
    run(device::HeadMatMul{.w = {&w.memory(), static_cast<size_t>(i) * bytes, quant::Type::Q8_0,
                                 int64_t{n_heads} * kLatent, kNope, row_bytes},
                           .x = heads->view<float>(rows, n_heads * (kNope + kRot)), .live = sequence.live(),
                           .y = q->view<float>(rows, n_heads * kKey), .n_heads = n_heads, .transposed = false},
        bench.context());
  });
  bench.print(named("  its products of heads by 512 x 128", rows, 0).c_str(), product_us, static_cast<double>(bytes),
              2.0 * static_cast<double>(rows * n_heads * kLatent * kNope));
}

}  // namespace

void run_uncommon(Bench& bench) {
  for (const int64_t rows : {1, 2048}) bench_mix(bench, rows);
  bench_choice(bench, 1, 8192);
  bench_choice(bench, 1, 131072);
  bench_choice(bench, 2048, 2048);
  bench_choice(bench, 2048, 8192);
  for (const int64_t rows : {1, 2048}) {
    bench_latent(bench, 128, rows, 4096);
    bench_latent(bench, 16, rows, 4096);
  }
}

}  // namespace strata::test
