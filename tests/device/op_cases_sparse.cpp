// Sparse attention: the keys of its index, the choice of blocks, the attention to them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/op_case.h"
#include "device/paged.h"
#include "kernels/ref/ref.h"

namespace strata::test {

namespace ref = kernels::ref;
using device::Device;

namespace {

constexpr int kBlock = 4;
constexpr float kEps = 1e-2f;

// Norm and rope of one head in double, from a position of its own.
std::vector<double> rotated(std::vector<double> x, const float* gain, int64_t position, const Grid<float>& inv_freq) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(x.size()) + double{kEps});
  for (size_t i = 0; i < x.size(); i++) x[i] *= factor * gain[i];
  const auto n_pairs = static_cast<size_t>(inv_freq.cols());
  for (size_t p = 0; p < n_pairs; p++) {
    const double angle = static_cast<double>(position) * inv_freq.at(0, static_cast<int64_t>(p));
    const double a = x[p], b = x[p + n_pairs];
    x[p] = a * std::cos(angle) - b * std::sin(angle);
    x[p + n_pairs] = a * std::sin(angle) + b * std::cos(angle);
  }
  return x;
}

struct Segment {
  int32_t slot, first, rows, position;
};

// Segments that begin and end inside of blocks, one that completes none, and a row between them that belongs to none.
void index_append(Device& device, OpCases& cases, const char* name, int block) {
  OpCase& c = add_case<device::IndexAppend>(device, cases, name);
  constexpr int64_t kDim = 12, kHeads = 2, kPairs = 4;
  constexpr int kKvTokens = 8;
  const std::vector<Segment> list = {{2, 0, 9, 6}, {0, 9, 1, 5}, {1, 11, 7, 0}};
  constexpr int64_t kRows = 19, kSlots = 3, kKvBlocks = 3;
  const auto q = c.grid<float>(kRows, kHeads * kDim), k = c.grid<float>(kRows, kDim);
  const auto q_norm = c.grid<float>(1, kDim), k_norm = c.grid<float>(1, kDim);
  const auto cos_sin = c.grid<float>(kRows, 2 * kPairs);
  const auto inv_freq = c.grid<float>(1, kPairs);
  const auto positions = c.grid<int32_t>(1, kRows), slots = c.grid<int32_t>(1, kRows);
  const auto table = c.grid<int32_t>(kSlots, kKvBlocks);
  const auto count = c.count_grid();
  const auto segments = c.grid<int32_t>(static_cast<int64_t>(list.size()), 3);
  const auto tail = block > 1 ? c.grid<float>(kSlots, (block - 1) * kDim) : nullptr;
  const auto keys = c.grid<float>((kSlots * kKvBlocks + 1) * kKvTokens / block, kDim);
  c.fill = [=](Random& random) {
    for (const auto& grid : {q, k, q_norm, k_norm}) grid->fill_normal(random);
    if (tail) tail->fill_normal(random);
    for (int64_t p = 0; p < kPairs; p++) inv_freq->at(0, p) = std::pow(0.3f, static_cast<float>(p));
    for (int64_t i = 0; i < kSlots * kKvBlocks; i++) {  // no two alike, in no order
      table->at(i / kKvBlocks, i % kKvBlocks) = static_cast<int32_t>((i * 7 + 3) % (kSlots * kKvBlocks + 1));
    }
    count->at(0, 0) = static_cast<int32_t>(list.size());
    for (size_t i = 0; i < list.size(); i++) {
      segments->set_row(static_cast<int64_t>(i), {list[i].slot, list[i].first, list[i].rows});
      for (int32_t r = 0; r < list[i].rows; r++) {
        positions->at(0, list[i].first + r) = list[i].position + r;
        slots->at(0, list[i].first + r) = list[i].slot;
        float* cos = cos_sin->row(list[i].first + r);
        kernels::rope_angles(list[i].position + r, inv_freq->row(0), kPairs, 1, cos, cos + kPairs);
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    device::IndexAppend op{.q = *q, .k = *k, .q_norm = *q_norm, .k_norm = *k_norm, .cos_sin = *cos_sin,
                           .inv_freq = *inv_freq, .rows = {{}, *positions, *slots, *table},
                           .segments = {*count, *segments}, .tail = {},
                           .index = {.keys = *keys, .kv_block_tokens = kKvTokens, .block = block}, .magnitude = 1,
                           .eps = kEps};
    if (tail) op.tail = *tail;
    s.enqueue(op);
  };
  c.expect = [=] {
    constexpr double kTolerance = 1e-5;  // values around 1, angles of positions below 20
    std::vector<Want> wants;
    for (const Segment& s : list) {
      const auto raw = [&](int64_t t) {
        return t < s.position ? tail->row(s.slot) + t % block * kDim : k->row(s.first + t - s.position);
      };
      for (int32_t r = 0; r < s.rows; r++) {
        const int64_t position = s.position + r;
        for (int64_t h = 0; h < kHeads; h++) {
          float* head = q->row(s.first + r) + h * kDim;
          want_row_within(wants, head, rotated({head, head + kDim}, q_norm->row(0), position, *inv_freq), kTolerance);
        }
        if ((position + 1) % block != 0) continue;
        std::vector<double> mean(kDim);
        const int64_t first = position - block + 1;
        for (int64_t t = first; t <= position; t++) {
          for (int64_t i = 0; i < kDim; i++) mean[static_cast<size_t>(i)] += double{raw(t)[i]} / block;
        }
        const int64_t kv_block = table->at(s.slot, first / kKvTokens);
        const float* at = keys->row((kv_block * kKvTokens + first % kKvTokens) / block);
        want_row_within(wants, at, rotated(mean, k_norm->row(0), first, *inv_freq), kTolerance);
      }
      const int64_t end = s.position + s.rows;
      for (int64_t t = std::max<int64_t>(s.position, end / block * block); t < end; t++) {
        want_row_within(wants, tail->row(s.slot) + t % block * kDim, {raw(t), raw(t) + kDim}, 0);
      }
    }
    return wants;
  };
}

// The complete blocks that a row chooses, in order, by sorting all of them.
std::vector<int64_t> best_blocks(const std::vector<double>& scores, int most) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  if (order.size() > static_cast<size_t>(most)) order.resize(static_cast<size_t>(most));
  std::sort(order.begin(), order.end());
  return order;
}

void select_blocks(Device& device, OpCases& cases, const char* name, int most) {
  OpCase& c = add_case<device::SelectBlocks>(device, cases, name);
  constexpr int64_t kDim = 12, kHeads = 2;
  const Paged paged(c, {.block_tokens = 8, .bucket = 9, .live = 7, .max_position = 100});
  const int64_t per_kv = paged.shape.block_tokens / kBlock;
  const auto q = c.grid<float>(paged.shape.bucket, kHeads * kDim);
  const auto keys = c.grid<float>(paged.n_blocks * per_kv, kDim);
  const auto chosen = c.grid<int32_t>(paged.shape.bucket, most + 2);
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    // Small whole numbers: sums are exact, and equal scores, most of them 0, are frequent.
    for (const auto& grid : {q, keys}) {
      grid->fill_normal(random);
      for (int64_t r = 0; r < grid->rows(); r++) {
        for (int64_t i = 0; i < grid->cols(); i++) grid->at(r, i) = std::round(grid->at(r, i));
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::SelectBlocks{
        .q = *q, .rows = paged.row_map(),
        .index = {.keys = *keys, .kv_block_tokens = paged.shape.block_tokens, .block = kBlock},
        .chosen = *chosen, .most = most});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < paged.shape.live; r++) {
      const int64_t n_tokens = paged.positions->at(0, r) + 1;
      const auto place = [&](int64_t b) { return paged.token(paged.slots->at(0, r), b * kBlock) / kBlock; };
      std::vector<double> scores;
      for (int64_t b = 0; b < n_tokens / kBlock; b++) {
        double score = 0;
        for (int64_t h = 0; h < kHeads; h++) {
          score += std::max(0.0, ref::dot(q->row(r) + h * kDim, keys->row(place(b)), kDim));
        }
        scores.push_back(score);
      }
      const std::vector<int64_t> blocks = best_blocks(scores, most);
      std::vector<double> row = {static_cast<double>(blocks.size())};
      for (const int64_t b : blocks) row.push_back(static_cast<double>(place(b)));
      if (n_tokens % kBlock != 0) row.push_back(static_cast<double>(place(n_tokens / kBlock)));
      for (size_t i = 0; i < row.size(); i++) {
        wants.push_back({&chosen->at(r, static_cast<int64_t>(i)), row[i], 0, Want::Kind::kI32});
      }
    }
    return wants;
  };
}

struct SparseForm {
  const char* name;
  PagedShape shape;
  bool gated;
  int most;
};

void sparse_attention(Device& device, OpCases& cases, const SparseForm& form) {
  OpCase& c = add_case<device::SparseAttention>(device, cases, form.name);
  const PagedShape& shape = form.shape;
  const int n_heads = 2 * shape.n_kv_heads;
  const int stride = shape.key_dim + (form.gated ? shape.value_dim : 0);
  const Paged paged(c, shape);
  const auto q = c.grid<float>(shape.bucket, int64_t{n_heads} * stride);
  const auto chosen = c.grid<int32_t>(shape.bucket, form.most + 2);
  const auto y = c.grid<float>(shape.bucket, int64_t{n_heads} * shape.value_dim);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  // The tokens of a row's chosen blocks, by the list that the operation is given.
  const auto tokens_of = [=](int64_t r) {
    std::vector<int64_t> tokens;
    const int64_t n = paged.positions->at(0, r) + 1;
    for (int64_t e = 0; e < chosen->at(r, 0) * kBlock + n % kBlock; e++) {
      tokens.push_back(int64_t{chosen->at(r, 1 + e / kBlock)} * kBlock + e % kBlock);
    }
    return tokens;
  };
  c.fill = [=](Random& random) {
    paged.fill_map(random);
    paged.fill_cache(random);
    q->fill_normal(random);
    for (int64_t r = 0; r < shape.live; r++) {
      const int64_t n_tokens = paged.positions->at(0, r) + 1;
      const int64_t n_blocks = n_tokens / kBlock;
      const auto place = [&](int64_t b) {
        return static_cast<int32_t>(paged.token(paged.slots->at(0, r), b * kBlock) / kBlock);
      };
      std::vector<double> scores;
      for (int64_t b = 0; b < n_blocks; b++) scores.push_back(random.uniform());
      int64_t at = 0;
      for (const int64_t b : best_blocks(scores, form.most)) chosen->at(r, ++at) = place(b);
      chosen->at(r, 0) = static_cast<int32_t>(at);
      if (n_tokens % kBlock != 0) chosen->at(r, at + 1) = place(n_blocks);
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::SparseAttention{.q = *q, .chosen = *chosen, .rows = paged.row_map(), .kv = paged.kv(), .y = *y,
                                      .n_heads = n_heads, .q_head_stride = stride, .gated = form.gated,
                                      .block = kBlock, .scale = scale});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < shape.live; r++) {
      const std::vector<int64_t> tokens = tokens_of(r);
      for (int h = 0; h < n_heads; h++) {
        const int kv_head = h / 2;
        std::vector<float> keys, values;
        for (const int64_t token : tokens) {
          for (int i = 0; i < shape.key_dim; i++) keys.push_back(paged.key(token, kv_head * shape.key_dim + i));
          for (int i = 0; i < shape.value_dim; i++) values.push_back(paged.value(token, kv_head * shape.value_dim + i));
        }
        const float* head = q->row(r) + h * stride;
        std::vector<double> out(static_cast<size_t>(shape.value_dim));
        ref::attention({head, keys.data(), values.data(), static_cast<int64_t>(tokens.size()), shape.key_dim,
                        shape.value_dim, double{scale}, nullptr},
                       out.data());
        for (int i = 0; i < shape.value_dim && form.gated; i++) {
          out[static_cast<size_t>(i)] *= ref::sigmoid(head[shape.key_dim + i]);
        }
        want_row_within(wants, y->row(r) + h * shape.value_dim, out, 1e-5);
      }
    }
    return wants;
  };
}

}  // namespace

void add_sparse_cases(Device& device, OpCases& cases) {
  index_append(device, cases, "", kBlock);
  index_append(device, cases, "_a_key_each_token", 1);
  select_blocks(device, cases, "", 5);
  select_blocks(device, cases, "_of_whom_all_fit", 25);
  const PagedShape shape{.key_dim = 24, .value_dim = 16, .block_tokens = 8, .bucket = 9, .live = 7, .max_position = 60};
  PagedShape half = shape;
  half.type = kernels::KvType::kF16;
  PagedShape spans = shape;
  spans.bucket = spans.live = 2;
  spans.max_position = 1500;
  sparse_attention(device, cases, {"", shape, false, 3});
  sparse_attention(device, cases, {"_gated", shape, true, 3});
  sparse_attention(device, cases, {"_dense", shape, true, 15});
  sparse_attention(device, cases, {"_f16", half, false, 4});
  sparse_attention(device, cases, {"_several_spans", spans, true, 150});
}

}  // namespace strata::test
