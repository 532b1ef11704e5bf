// Times operations with the kernels of a GPU, each as nodes of one graph that goes through more weights than the
// second-level cache holds. Prints microseconds a node, gigabytes a second of weights (or teraflops), and what part
// of the bandwidth it is that a large copy reaches on the same device: `kernels_bench [copy GB/s [layers|uncommon]]`,
// by default 4300, as measured on an H200; `layers` leaves out all but the operations of a model's layers, `uncommon`
// all but those that only some architectures have.
#include <string_view>

#include "kernels_bench_rig.h"

namespace strata::test {
namespace {

void bench_product(Bench& bench, quant::Type type, int64_t rows, int64_t cols, int64_t tokens,
                   device::Rounding rounding) {
  const size_t row_bytes = quant::row_bytes(type, static_cast<size_t>(cols));
  const size_t bytes = static_cast<size_t>(rows) * row_bytes;
  const int copies = static_cast<int>(std::clamp<size_t>((size_t{400} << 20) / bytes, 2, 160));
  Random random(1);
  const Block w(bytes * static_cast<size_t>(copies));
  const auto some = any_weights(type, static_cast<size_t>(std::min<int64_t>(rows, 256) * cols), random);
  for (size_t at = 0; at + some.size() <= w.memory().bytes(); at += some.size()) w.set(some, at);
  const Block x(static_cast<size_t>(tokens * cols) * 4), y(static_cast<size_t>(tokens * rows) * 4), live(4);
  x.set(normals(static_cast<size_t>(tokens * cols), random));
  live.set(std::vector<int32_t>{static_cast<int32_t>(tokens)});
  const double us = bench.time(copies, [&](int i) {
    const device::Weight weight{&w.memory(), bytes * static_cast<size_t>(i), type, rows, cols, row_bytes, rounding};
    run(device::MatMul{.w = weight, .x = x.view<float>(tokens, cols), .bias = {}, .live = live.view<int32_t>(1, 1),
                       .y = y.view<float>(tokens, rows)},
        bench.context());
  });
  char what[96];
  std::snprintf(what, sizeof what, "%s%s %ld x %ld, %ld rows", quant::info(type).name,
                rounding == device::Rounding::kNone ? " float" : rounding == device::Rounding::kTwice ? " twice" : "",
                static_cast<long>(rows), static_cast<long>(cols), static_cast<long>(tokens));
  bench.print(what, us, static_cast<double>(bytes), 2.0 * static_cast<double>(rows * cols * tokens));
}

// Layers of experts in slots of their own; tokens choose k of n experts at random.
void bench_experts(Bench& bench, quant::Type gate, quant::Type down, int64_t tokens) {
  constexpr int64_t kDim = 2048, kFfn = 768, kExperts = 128, kUsed = 8;
  constexpr int kLayers = 4;
  device::ExpertBlob blob;
  size_t end = 0;
  const auto matrix = [&](quant::Type type, int64_t rows, int64_t cols) {
    device::ExpertMatrix m{type, rows, cols, quant::row_bytes(type, static_cast<size_t>(cols)), end};
    end += static_cast<size_t>(rows) * m.row_bytes;
    return m;
  };
  blob.gate = matrix(gate, kFfn, kDim);
  blob.up = matrix(gate, kFfn, kDim);
  blob.down = matrix(down, kDim, kFfn);
  blob.bytes = align_up(end, 256);
  Random random(2);
  const size_t layer_bytes = blob.bytes * kExperts;
  const Block slots(layer_bytes * kLayers);
  std::vector<uint8_t> one(blob.bytes);
  for (const device::ExpertMatrix* m : {&blob.gate, &blob.up, &blob.down}) {
    const auto bytes = any_weights(m->type, static_cast<size_t>(m->rows * m->cols), random);
    std::copy(bytes.begin(), bytes.end(), one.begin() + static_cast<std::ptrdiff_t>(m->offset));
  }
  std::vector<int64_t> starts;
  std::vector<int32_t> slot_of;
  for (int i = 0; i < kLayers * kExperts; i++) {
    starts.push_back(static_cast<int64_t>(blob.bytes) * i);
    slot_of.push_back(i);
    slots.set(one, blob.bytes * static_cast<size_t>(i));
  }
  const Block offsets(starts.size() * 8), table(slot_of.size() * 4), live(4);
  offsets.set(starts);
  table.set(slot_of);
  live.set(std::vector<int32_t>{static_cast<int32_t>(tokens)});
  std::vector<int32_t> ids;
  std::vector<bool> used(kExperts);
  for (int64_t t = 0; t < tokens; t++) {
    std::vector<int32_t> all(kExperts);
    for (int32_t e = 0; e < kExperts; e++) all[static_cast<size_t>(e)] = e;
    for (size_t j = 0; j < kUsed; j++) {
      std::swap(all[j], all[j + random.below(kExperts - j)]);
      ids.push_back(all[j]);
      used[static_cast<size_t>(all[j])] = true;
    }
  }
  const auto n_used = static_cast<double>(std::count(used.begin(), used.end(), true));
  const Block chosen(ids.size() * 4);
  chosen.set(ids);
  const int64_t pairs = tokens * kUsed;
  const auto floats = [](int64_t n) { return static_cast<size_t>(n) * 4; };
  const Block x(floats(tokens * kDim)), inputs(floats(pairs * kDim)), hidden(floats(pairs * kFfn)),
      groups(floats(device::expert_group_ints(pairs, kExperts))), y(floats(pairs * kDim)), gain(floats(kDim)),
      normed(floats(tokens * kDim)), router(floats(kLayers * kExperts * kDim)), logits(floats(tokens * kExperts)),
      routed(floats(pairs)), weights(floats(pairs));
  x.set(normals(static_cast<size_t>(tokens * kDim), random));
  gain.set(normals(kDim, random));
  router.set(normals(size_t{kLayers} * kExperts * kDim, random));
  device::ExpertFormula formula;
  formula.round_activations = true;
  const auto all_slots = table.view<int32_t>(1, kLayers * kExperts);
  const auto route = [&](int i) {
    device::Router op{.w = {&router.memory(), size_t{kExperts} * kDim * 4 * static_cast<size_t>(i % kLayers),
                            quant::Type::F32, kExperts, kDim, kDim * 4},
                      .x = x.view<float>(tokens, kDim), .bias = {}, .selection_bias = {},
                      .live = live.view<int32_t>(1, 1), .ids = routed.view<int32_t>(tokens, kUsed),
                      .weights = weights.view<float>(tokens, kUsed), .logits = logits.view<float>(tokens, kExperts)};
    op.params = {.n_experts = kExperts, .n_used = kUsed, .gating = kernels::Gating::kSoftmax, .normalize = true,
                 .scale = 0, .n_groups = 0, .n_groups_used = 0};
    op.gain = gain.view<float>(1, kDim);
    op.normed = normed.view<float>(tokens, kDim);
    op.eps = 1e-6f;
    run(op, bench.context());
  };
  const auto compute = [&](int i) {
    run(device::ExpertFfn{.x = normed.view<float>(tokens, kDim),
                          .ids = chosen.view<int32_t>(tokens, kUsed),
                          .live = live.view<int32_t>(1, 1),
                          .slot_of = all_slots.columns(i % kLayers * kExperts, kExperts),
                          .slots = {&slots.memory(), offsets.view<int64_t>(1, kLayers * kExperts)},
                          .blob = blob,
                          .formula = formula,
                          .inputs = inputs.view<float>(pairs, kDim),
                          .hidden = hidden.view<float>(pairs, kFfn),
                          .groups = groups.view<int32_t>(1, device::expert_group_ints(pairs, kExperts)),
                          .y = y.view<float>(pairs, kDim),
                          .weights = weights.view<float>(tokens, kUsed),
                          .sum = x.view<float>(tokens, kDim)},
        bench.context());
  };
  const auto print = [&](const char* of, double us) {
    char what[96];
    std::snprintf(what, sizeof what, "%s %s/%s, %ld rows", of, quant::info(gate).name, quant::info(down).name,
                  static_cast<long>(tokens));
    bench.print(what, us, n_used * static_cast<double>(end), 6.0 * static_cast<double>(kDim * kFfn * pairs));
  };
  print("norm and router before", bench.time(kLayers * 4, route));
  print("experts", bench.time(kLayers * 4, compute));
  print("both,", bench.time(kLayers * 4, [&](int i) {
    route(i);
    compute(i);
  }));
}

// One layer of 32 query and 4 KV heads of 128; every row is of one sequence and sees what is before it.
void bench_attention(Bench& bench, kernels::KvType type, int64_t tokens, int64_t context_tokens) {
  constexpr int kHeads = 32, kKvHeads = 4, kDim = 128, kBlock = 64;
  constexpr int kLayers = 8;
  device::KvBlocks kv;
  kv.type = type;
  kv.block_tokens = kBlock;
  kv.n_kv_heads = kKvHeads;
  kv.key_dim = kv.value_dim = kDim;
  kv.n_blocks = static_cast<int>(context_tokens / kBlock);
  const size_t cache_bytes = kv.k_token_bytes() * static_cast<size_t>(context_tokens);
  std::vector<std::unique_ptr<Block>> caches;
  for (int i = 0; i < 2 * kLayers; i++) caches.push_back(std::make_unique<Block>(cache_bytes));
  std::vector<int32_t> blocks(static_cast<size_t>(kv.n_blocks)), positions, slots(static_cast<size_t>(tokens), 0);
  for (size_t i = 0; i < blocks.size(); i++) blocks[i] = static_cast<int32_t>(i);
  for (int64_t t = 0; t < tokens; t++) positions.push_back(static_cast<int32_t>(context_tokens - tokens + t));
  const Block table(blocks.size() * 4), at(positions.size() * 4), of(slots.size() * 4), live(4);
  table.set(blocks);
  at.set(positions);
  of.set(slots);
  live.set(std::vector<int32_t>{static_cast<int32_t>(tokens)});
  Random random(3);
  const Block q(static_cast<size_t>(tokens) * kHeads * kDim * 4), y(static_cast<size_t>(tokens) * kHeads * kDim * 4);
  q.set(normals(static_cast<size_t>(tokens) * kHeads * kDim, random));
  const double us = bench.time(kLayers, [&](int i) {
    kv.k = &caches[static_cast<size_t>(2 * i)]->memory();
    kv.v = &caches[static_cast<size_t>(2 * i + 1)]->memory();
    run(device::Attention{.q = q.view<float>(tokens, kHeads * kDim),
                          .sinks = {},
                          .rows = {live.view<int32_t>(1, 1), at.view<int32_t>(1, tokens), of.view<int32_t>(1, tokens),
                                   table.view<int32_t>(1, kv.n_blocks)},
                          .kv = kv,
                          .y = y.view<float>(tokens, kHeads * kDim),
                          .n_heads = kHeads,
                          .q_head_stride = kDim,
                          .scale = 0.0884f},
        bench.context());
  });
  char what[96];
  std::snprintf(what, sizeof what, "attention %s, %ld rows, context %ld", kernels::kv_type_name(type),
                static_cast<long>(tokens), static_cast<long>(context_tokens));
  const double seen = static_cast<double>(tokens) * (static_cast<double>(context_tokens) -
                                                     (static_cast<double>(tokens) - 1) / 2);
  bench.print(what, us, 2.0 * static_cast<double>(cache_bytes), 4.0 * kHeads * kDim * seen);
}

// What stands in front of the experts in the layers of a model 2048 wide with 32 query and 4 key heads of 128 and Q8_0
// projections: norm and projections, append and attention, output projection. Each with and without the others.
void bench_attention_half(Bench& bench, int64_t tokens, int64_t context_tokens) {
  constexpr int kLayers = 24, kHeads = 32, kKvHeads = 4, kDim = 128, kBlock = 32;
  constexpr int64_t kWidth = 2048, kQ = kHeads * kDim, kKv = kKvHeads * kDim, kRows = kQ + 2 * kKv;
  const auto floats = [](int64_t n) { return static_cast<size_t>(n) * 4; };
  const quant::Type type = quant::Type::Q8_0;
  const size_t in_bytes = quant::row_bytes(type, kWidth), out_bytes = quant::row_bytes(type, kQ);
  const size_t layer_bytes = kRows * in_bytes + kWidth * out_bytes;
  const size_t token_bytes = kernels::kv_bytes(kernels::KvType::kF16, kKv);
  const size_t cache_bytes = token_bytes * static_cast<size_t>(context_tokens);
  const Block weights(layer_bytes * kLayers), cache(2 * cache_bytes * kLayers);
  Random random(6);
  const auto some = any_weights(type, size_t{1} << 20, random);
  for (size_t at = 0; at + some.size() <= layer_bytes * kLayers; at += some.size()) weights.set(some, at);
  const Block x(floats(tokens * kWidth)), gain(floats(kWidth)), normed(floats(tokens * kWidth)),
      qkv(floats(tokens * kRows)), mixed(floats(tokens * kQ)), cos_sin(floats(tokens * kDim)),
      arrivals(floats(tokens * kHeads)), table(floats(context_tokens / kBlock)), at(floats(tokens)), of(floats(tokens)),
      live(4);
  x.set(normals(static_cast<size_t>(tokens * kWidth), random));
  gain.set(normals(kWidth, random));
  qkv.set(normals(static_cast<size_t>(tokens * kRows), random));
  mixed.set(normals(static_cast<size_t>(tokens * kQ), random));
  std::vector<int32_t> blocks(static_cast<size_t>(context_tokens / kBlock)), positions;
  for (size_t i = 0; i < blocks.size(); i++) blocks[i] = static_cast<int32_t>(i);
  for (int64_t t = 0; t < tokens; t++) positions.push_back(static_cast<int32_t>(context_tokens - tokens + t));
  table.set(blocks);
  at.set(positions);
  live.set(std::vector<int32_t>{static_cast<int32_t>(tokens)});
  const auto matrix = [&](int layer, size_t offset, int64_t rows, int64_t cols, device::Rounding rounding) {
    return device::Weight{&weights.memory(), static_cast<size_t>(layer) * layer_bytes + offset, type, rows, cols,
                          quant::row_bytes(type, static_cast<size_t>(cols)), rounding};
  };
  const auto project = [&](int layer) {
    device::Project op{.x = x.view<float>(tokens, kWidth), .gain = gain.view<float>(1, kWidth),
                       .live = live.view<int32_t>(1, 1), .normed = normed.view<float>(tokens, kWidth),
                       .y = qkv.view<float>(tokens, kRows), .eps = 1e-6f};
    op.parts[0].w = matrix(layer, 0, kQ, kWidth, device::Rounding::kOnce);
    op.parts[1].w = matrix(layer, kQ * in_bytes, kKv, kWidth, device::Rounding::kOnce);
    op.parts[2].w = matrix(layer, (kQ + kKv) * in_bytes, kKv, kWidth, device::Rounding::kOnce);
    run(op, bench.context());
  };
  const auto attend = [&](int layer) {
    std::byte* own = cache.memory().address() + 2 * static_cast<size_t>(layer) * cache_bytes;
    device::Memory keys(nullptr, device::MemoryKind::kDevice, "keys", own, cache_bytes);
    device::Memory values(nullptr, device::MemoryKind::kDevice, "values", own + cache_bytes, cache_bytes);
    device::KvBlocks kv;
    kv.k = &keys;
    kv.v = &values;
    kv.type = kernels::KvType::kF16;
    kv.block_tokens = kBlock;
    kv.n_blocks = static_cast<int>(context_tokens / kBlock);
    kv.n_kv_heads = kKvHeads;
    kv.key_dim = kv.value_dim = kDim;
    const auto view = qkv.view<float>(tokens, kRows);
    run(device::AppendAttend{
            .append = {.q = view.columns(0, kQ), .k = view.columns(kQ, kKv), .v = view.columns(kQ + kKv, kKv),
                       .q_norm = gain.view<float>(1, kDim), .k_norm = gain.view<float>(1, kDim),
                       .cos_sin = cos_sin.view<float>(tokens, kDim),
                       .rows = {live.view<int32_t>(1, 1), at.view<int32_t>(1, tokens), of.view<int32_t>(1, tokens),
                                table.view<int32_t>(1, context_tokens / kBlock)},
                       .kv = kv, .n_heads = kHeads, .q_head_stride = kDim, .interleaved = false, .eps = 1e-6f},
            .sinks = {},
            .arrivals = arrivals.view<int32_t>(tokens, kHeads),
            .y = mixed.view<float>(tokens, kQ),
            .scale = 0.0884f},
        bench.context());
  };
  const auto output = [&](int layer) {
    run(device::MatMul{.w = matrix(layer, kRows * in_bytes, kWidth, kQ, device::Rounding::kTwice),
                       .x = mixed.view<float>(tokens, kQ), .bias = {}, .live = live.view<int32_t>(1, 1),
                       .y = x.view<float>(tokens, kWidth), .accumulate = true},
        bench.context());
  };
  const auto print = [&](const char* what, double us, size_t bytes) {
    char line[96];
    std::snprintf(line, sizeof line, "%s, %ld rows, context %ld", what, static_cast<long>(tokens),
                  static_cast<long>(context_tokens));
    bench.print(line, us, static_cast<double>(bytes), 0);
  };
  print("projections", bench.time(kLayers, project), kRows * in_bytes);
  print("append, attend", bench.time(kLayers, attend), 2 * cache_bytes);
  print("output", bench.time(kLayers, output), kWidth * out_bytes);
  const double all = bench.time(kLayers, [&](int layer) {
    project(layer);
    attend(layer);
    output(layer);
  });
  print("all three", all, layer_bytes + 2 * cache_bytes);
}

// One layer of a gated delta net: 16 key and 32 value heads of 128.
void bench_delta(Bench& bench, int64_t tokens) {
  const device::DeltaShape shape{
      .n_key_heads = 16, .n_value_heads = 32, .key_dim = 128, .value_dim = 128, .kernel = 4, .tiled = false};
  Random random(4);
  const auto floats = [](int64_t n) { return static_cast<size_t>(n) * 4; };
  const Block qkv(floats(tokens * shape.channels())), gates(floats(tokens * 64)), state(floats(shape.state())),
      y(floats(tokens * 4096)), count(4), table(12), conv(floats(tokens * shape.channels())),
      conv_state(floats(shape.conv_state())), taps(floats(shape.channels() * 4));
  gates.set(std::vector<float>(static_cast<size_t>(tokens * 64), -0.1f));
  qkv.set(normals(static_cast<size_t>(tokens * shape.channels()), random));
  count.set(std::vector<int32_t>{1});
  table.set(std::vector<int32_t>{0, 0, static_cast<int32_t>(tokens)});
  const device::SegmentMap segments{count.view<int32_t>(1, 1), table.view<int32_t>(1, 3)};
  char what[96];
  const double us = bench.time(4, [&](int) {
    run(device::DeltaNet{.qkv = qkv.view<float>(tokens, shape.channels()), .g_beta = gates.view<float>(tokens, 64),
                         .state = state.view<float>(1, shape.state()), .segments = segments,
                         .y = y.view<float>(tokens, 4096), .shape = shape, .chunk_min_rows = 64},
        bench.context());
  });
  std::snprintf(what, sizeof what, "delta net, %ld rows", static_cast<long>(tokens));
  const auto state_size = static_cast<double>(shape.state());
  bench.print(what, us, 8 * state_size, 8 * state_size * static_cast<double>(tokens));
  const double conv_us = bench.time(4, [&](int) {
    run(device::DeltaConv{.x = qkv.view<float>(tokens, shape.channels()),
                          .taps = taps.view<float>(shape.channels(), 4),
                          .conv_state = conv_state.view<float>(1, shape.conv_state()), .segments = segments,
                          .y = conv.view<float>(tokens, shape.channels()), .shape = shape, .eps = 1e-6f},
        bench.context());
  });
  std::snprintf(what, sizeof what, "delta conv, %ld rows", static_cast<long>(tokens));
  bench.print(what, conv_us, 8.0 * static_cast<double>(tokens * shape.channels()), 0);
}

void bench_small(Bench& bench) {
  constexpr int64_t kDim = 2048;
  Random random(5);
  const Block x(kDim * 4), gain(kDim * 4), y(kDim * 4), live(4), w(size_t{128} * kDim * 4), logits(512), ids(32),
      weights(32);
  x.set(normals(kDim, random));
  gain.set(normals(kDim, random));
  w.set(normals(size_t{128} * kDim, random));
  live.set(std::vector<int32_t>{1});
  bench.print("rms norm 2048", bench.time(64, [&](int) {
    run(device::RmsNorm{.x = x.view<float>(1, kDim), .gain = gain.view<float>(1, kDim),
                        .live = live.view<int32_t>(1, 1), .y = y.view<float>(1, kDim), .eps = 1e-6f},
        bench.context());
  }), 0, 0);
  bench.print("router 128 of 2048", bench.time(64, [&](int) {
    device::Router op{.w = {&w.memory(), 0, quant::Type::F32, 128, kDim, kDim * 4}, .x = x.view<float>(1, kDim),
                      .bias = {}, .selection_bias = {}, .live = live.view<int32_t>(1, 1),
                      .ids = ids.view<int32_t>(1, 8), .weights = weights.view<float>(1, 8),
                      .logits = logits.view<float>(1, 128)};
    op.params = {.n_experts = 128, .n_used = 8, .gating = kernels::Gating::kSoftmax, .normalize = true, .scale = 0,
                 .n_groups = 0, .n_groups_used = 0};
    run(op, bench.context());
  }), 0, 0);
}

void run_layers(Bench& bench) {
  for (const quant::Type type : {quant::Type::Q6_K, quant::Type::Q8_0}) {
    bench_product(bench, type, 151936, 2048, 1, device::Rounding::kOnce);
  }
  for (const int64_t context : {512, 8192, 32768}) bench_attention_half(bench, 1, context);
  bench_attention_half(bench, 4, 512);
  bench_attention_half(bench, 8, 2048);
  for (const int64_t tokens : {1, 4, 8}) bench_experts(bench, quant::Type::Q4_K, quant::Type::Q6_K, tokens);
  bench_experts(bench, quant::Type::Q8_0, quant::Type::Q8_0, 1);
}

void run_all(Bench& bench) {
  using device::Rounding;
  using quant::Type;
  for (const Type type : {Type::Q4_K, Type::Q6_K, Type::Q8_0}) {
    for (const int64_t rows : {2048, 4096, 8192}) {
      for (const int64_t tokens : {1, 4, 8}) bench_product(bench, type, rows, 2048, tokens, Rounding::kOnce);
    }
    bench_product(bench, type, 151936, 2048, 1, Rounding::kOnce);
    bench_product(bench, type, 2048, 4096, 1, Rounding::kTwice);
    bench_product(bench, type, 4096, 2048, 64, Rounding::kOnce);
    bench_product(bench, type, 4096, 2048, 2048, Rounding::kOnce);
  }
  for (const Type type : {Type::Q4_0, Type::Q5_K, Type::Q3_K, Type::IQ4_XS, Type::IQ2_XXS, Type::IQ3_S, Type::MXFP4}) {
    bench_product(bench, type, 8192, 2048, 1, Rounding::kOnce);
    bench_product(bench, type, 4096, 2048, 2048, Rounding::kOnce);
  }
  bench_product(bench, Type::F16, 8192, 2048, 1, Rounding::kNone);
  bench_product(bench, Type::BF16, 8192, 2048, 4, Rounding::kNone);
  bench_product(bench, Type::Q4_K, 8192, 2048, 1, Rounding::kNone);
  bench_product(bench, Type::Q4_K, 4096, 2048, 1024, Rounding::kNone);
  for (const int64_t tokens : {1, 4, 16, 64, 512, 2048}) bench_experts(bench, Type::Q4_K, Type::Q6_K, tokens);
  bench_experts(bench, Type::Q8_0, Type::Q8_0, 1);
  for (const kernels::KvType type : {kernels::KvType::kF16, kernels::KvType::kQ8_0}) {
    for (const int64_t context : {512, 8192, 32768}) bench_attention(bench, type, 1, context);
    bench_attention(bench, type, 8, 8192);
    bench_attention(bench, type, 2048, 2048);
  }
  for (const int64_t tokens : {1, 2048}) bench_delta(bench, tokens);
  bench_small(bench);
  run_layers(bench);
}

}  // namespace
}  // namespace strata::test

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "skipped: no CUDA device\n");
    return 77;
  }
  strata::test::Bench bench(argc > 1 ? std::atof(argv[1]) : 4300);
  const std::string_view part = argc > 2 ? argv[2] : "all";
  if (part == "layers") strata::test::run_layers(bench);
  if (part == "uncommon" || part == "all") strata::test::run_uncommon(bench);
  if (part == "all") strata::test::run_all(bench);
  return 0;
}
