#include "device/host/expert_ffn.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "device/host/rounded.h"

namespace strata::device::host {
namespace {

// Weight rows of an expert that one worker computes at once, at the least.
constexpr int64_t kPieceRows = 32;
// Rows that are touched between two looks at whether to stop.
constexpr int64_t kTouchRows = 16;
// Shares of an expert's rows are multiples of so many: as many as kernels compute side by side.
constexpr int64_t kShareRows = 4;

// Floats of scratch per thread for a product, or for rounding its inputs.
int64_t product_scratch(int64_t dim, int64_t ffn) {
  const int64_t cols = std::max(dim, ffn);
  return std::max({matmul_scratch(cols), rounding_scratch(kernels::ActFormat::kBlock, cols),
                   rounding_scratch(kernels::ActFormat::kSuper, cols)});
}

PlacedMatrix placed_matrix(const ExpertMatrix& m, const std::byte* blob) {
  const auto at = [&](int64_t offset) { return offset < 0 ? nullptr : blob + offset; };
  return {{m.type, reinterpret_cast<const uint8_t*>(blob + m.offset), m.rows, m.cols, m.row_bytes},
          at(m.bias_offset),
          at(m.scale_offset)};
}

// Floats of a thread's own rounded hidden rows, of a group of few pairs.
int64_t own_rows_floats(int64_t ffn) {
  size_t bytes = 0;
  for (const auto format : {kernels::ActFormat::kBlock, kernels::ActFormat::kSuper}) {
    bytes = std::max(bytes, rounded_bytes(format, ffn, kernels::kFewRows));
  }
  return static_cast<int64_t>(bytes / sizeof(float)) + 1;
}

// Tokens that a piece computes together: float rows stay in the second-level cache, rounded ones share the unpacking of
// their weights.
constexpr int64_t kRoundedTokens = 512;

// Floats of scratch in front of a piece's products, and behind these, where a thread's own rounded rows begin.
int64_t products_at(int64_t dim, int64_t ffn) { return product_scratch(dim, ffn); }
int64_t own_rows_at(int64_t dim, int64_t ffn) {
  return static_cast<int64_t>(align_up(static_cast<uint64_t>(products_at(dim, ffn) + kPieceRows * kRoundedTokens), 16));
}

// What a product multiplies: float rows, or rows rounded for the weight's type.
struct Inputs {
  kernels::ActFormat format = kernels::ActFormat::kNone;  // kNone: floats
  View<float> rows;     // of all pairs; a rounded group begins where its first float row would
  bool shared = false;  // every group has one row, the same
  const uint8_t* own = nullptr;  // rounded rows of a piece's group, multiplied instead of those of `rows`; or null
};

kernels::ActFormat input_format(const ExpertBatch& batch, const PlacedMatrix& m) {
  return batch.formula.round_activations ? kernels::act_format(m.w.type) : kernels::ActFormat::kNone;
}

uint8_t* rounded_group(const View<float>& rows, int64_t begin) { return reinterpret_cast<uint8_t*>(rows.row(begin)); }

// Whether the rounded rows of a group have room in as many float rows: tiles of few rows may not.
bool group_in_tiles(const kernels::Kernels& kernels, const Inputs& in, int64_t cols, int64_t n) {
  const size_t room = static_cast<size_t>(n * in.rows.stride) * sizeof(float);
  return in_tiles(kernels, n) && rounded_bytes(in.format, cols, n) <= room;
}

struct Piece {
  PlacedExpert expert;
  int64_t begin, end;   // places of the group's pairs
  int64_t first, rows;  // weight rows
  float* scratch;
};

// Reads a byte of each cache line, in four streams: a prefetcher follows each.
void touch(const uint8_t* at, size_t bytes) {
  constexpr size_t kLine = 64, kStreams = 4;
  const size_t length = (bytes / kStreams + kLine - 1) / kLine * kLine;
  for (size_t i = 0; i < length; i += kLine) {
    for (size_t stream = 0; stream < kStreams; stream++) {
      const size_t byte = stream * length + i;
      if (byte < bytes) static_cast<void>(*static_cast<const volatile uint8_t*>(at + byte));
    }
  }
}

int64_t most_pairs(const PairGroups& groups) {
  int64_t most = 1;
  for (int64_t g = 0; g < groups.n; g++) most = std::max<int64_t>(most, groups.begins[g + 1] - groups.begins[g]);
  return most;
}

// Of a piece, so that its products have room in the scratch.
int64_t units_that_fit(int64_t most_tokens) { return kRoundedTokens / std::min(most_tokens, kRoundedTokens); }

// The weight rows of a matrix that a thread computes where every thread has a share of every expert.
struct RowShare {
  int64_t first, end;
};
RowShare share_of(int64_t total_rows, int64_t share, int64_t n_shares) {
  const int64_t units = (total_rows + kShareRows - 1) / kShareRows;
  const auto begin = [&](int64_t i) { return std::min(units * i / n_shares * kShareRows, total_rows); };
  return {begin(share), begin(share + 1)};
}

// Calls body(piece) for every piece of `total_rows` weight rows of every group, none larger than the scratch for its
// products. Where groups are of a few pairs, time goes by the weights that are read: every thread has its share of each
// expert, the same whatever the others are, so that it may have it in its caches (touch_experts). Else time goes by a
// group's pairs too: each thread gets several pieces.
template <class Body>
void for_each_piece(Compute& compute, const ExpertBatch& batch, int64_t total_rows, const Body& body) {
  const PairGroups& groups = batch.groups;
  const int64_t units = (total_rows + kPieceRows - 1) / kPieceRows;  // of a group
  const int64_t most_tokens = most_pairs(groups);
  const int64_t fit = units_that_fit(most_tokens);
  const int64_t scratch_floats = expert_scratch(batch.x.cols, batch.ffn);
  if (most_tokens <= kernels::kFewRows) {
    const int64_t n_shares = compute.pool().n_threads();
    compute.pool().for_each_share(groups.n, [&](int64_t g, int64_t share, int worker) {
      const RowShare own = share_of(total_rows, share, n_shares);
      for (int64_t first = own.first; first < own.end; first += fit * kPieceRows) {
        body(Piece{batch.places.expert(g), groups.begins[g], groups.begins[g + 1], first,
                   std::min(fit * kPieceRows, own.end - first), compute.scratch(worker, scratch_floats)});
      }
    });
    return;
  }
  const auto compute_units = [&](int64_t begin, int64_t end, int worker) {
    for (int64_t unit = begin; unit < end;) {
      const int64_t g = unit / units;
      const int64_t first = unit % units * kPieceRows;
      const int64_t count = std::min({end - unit, units - unit % units, fit});
      body(Piece{batch.places.expert(g), groups.begins[g], groups.begins[g + 1], first,
                 std::min(count * kPieceRows, total_rows - first), compute.scratch(worker, scratch_floats)});
      unit += count;
    }
  };
  const int64_t shared = compute.grain(groups.n * total_rows, kPieceRows) / kPieceRows;
  const int64_t length = std::clamp<int64_t>(shared, 1, std::min(fit, units));
  const int64_t pieces = (units + length - 1) / length;  // of a group
  compute.pool().for_each(groups.n * pieces, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t piece = begin; piece < end; piece++) {
      const int64_t group = piece / pieces * units, first = piece % pieces * length;
      compute_units(group + first, group + std::min(first + length, units), worker);
    }
  });
}

// out[t][0..piece.rows) = products of the piece's weight rows with the pairs [place, place + tokens), times the scale,
// plus the bias. place - piece.begin is a multiple of kRoundedTokens.
void compute_product(const kernels::Kernels& kernels, const Piece& piece, const PlacedMatrix& matrix, const Inputs& in,
                     int64_t place, int64_t tokens, float* out, int64_t out_stride) {
  kernels::Matrix w = matrix.w;
  w.data += static_cast<size_t>(piece.first) * w.row_bytes;
  w.rows = piece.rows;
  if (in.format == kernels::ActFormat::kNone) {
    for (int64_t t = 0; t < tokens; t += kTokenTile) {
      kernels.matmul(w, 0, w.rows, in.rows.row(place + t), in.rows.stride, std::min(kTokenTile, tokens - t),
                     out + t * out_stride, out_stride, piece.scratch);
    }
  } else {
    const bool tiles = group_in_tiles(kernels, in, w.cols, piece.end - piece.begin);
    const int64_t at = place - piece.begin;
    const uint8_t* x = in.own != nullptr ? in.own : rounded_group(in.rows, in.shared ? 0 : piece.begin);
    x += rounded_offset(in.format, w.cols, tiles, at);
    kernels.matmul_q8(w, 0, w.rows, x, tokens, tiles, {out, out_stride}, piece.scratch);
  }
  if (matrix.scale == nullptr && matrix.bias == nullptr) return;
  const float factor = matrix.scale == nullptr ? 1 : load_le<float>(matrix.scale);
  for (int64_t t = 0; t < tokens; t++) {
    float* row = out + t * out_stride;
    for (int64_t i = 0; i < piece.rows; i++) {
      float value = row[i] * factor;
      if (matrix.bias != nullptr) {
        value += load_le<float>(matrix.bias + static_cast<size_t>(piece.first + i) * sizeof(float));
      }
      row[i] = value;
    }
  }
}

void activate(const kernels::Kernels& kernels, const ExpertFormula& formula, float* gate, const float* up, int64_t n) {
  if (formula.activation == ExpertFormula::Activation::kSiluMul) {
    kernels.silu_mul(gate, up, gate, n);
  } else {
    kernels.swiglu_clamped(gate, up, gate, n, formula.alpha, formula.limit);
  }
}

// Rounds the float rows of all groups, row i being the one at sorted place i, into `in.rows`.
void round_groups(Compute& compute, const ExpertBatch& batch, const FloatRows& x, int64_t cols, const Inputs& in) {
  const PairGroups& groups = batch.groups;
  const int64_t n_pairs = in.shared ? 1 : groups.n_pairs();
  constexpr int64_t kTile = kernels::kTileRows;
  // Whoever has the place of a tile's first row in its share rounds the tile.
  compute.pool().for_each(n_pairs, kTile, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = compute.scratch(worker, expert_scratch(batch.x.cols, batch.ffn));
    int64_t g = std::upper_bound(groups.begins, groups.begins + groups.n, begin) - groups.begins - 1;
    for (; g < groups.n && groups.begins[g] < end; g++) {
      const int64_t first = groups.begins[g];
      const int64_t n = groups.begins[g + 1] - first;
      uint8_t* to = rounded_group(in.rows, first);
      const bool tiles = group_in_tiles(compute.kernels(), in, cols, n);
      for (int64_t t = begin <= first ? 0 : (begin - first + kTile - 1) / kTile * kTile; t < n && first + t < end;
           t += kTile) {
        round_some(compute.kernels(), in.format, x.from(first + t), cols, std::min(kTile, n - t), tiles,
                   to + rounded_offset(in.format, cols, tiles, t), scratch);
      }
    }
  });
}

// The inputs of the groups' pairs in sorted order, as products of this format take them: floats side by side, so that a
// decoded weight row serves all of them, or rounded.
Inputs gather_inputs(Compute& compute, const ExpertBatch& batch, kernels::ActFormat format) {
  const PairGroups& groups = batch.groups;
  Inputs in{format, batch.inputs};
  if (format != kernels::ActFormat::kNone) {
    const int64_t n = groups.n_pairs();
    in.shared = n == groups.n;
    for (int64_t i = 1; i < n && in.shared; i++) in.shared = groups.order[i] / batch.k == groups.order[0] / batch.k;
    round_groups(compute, batch, {batch.x.data(), batch.x.stride, groups.order, batch.k}, batch.x.cols, in);
    return in;
  }
  compute.pool().for_each(groups.n_pairs(), 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) {
      std::memcpy(batch.inputs.row(i), batch.x.row(groups.order[i] / batch.k),
                  static_cast<size_t>(batch.x.cols) * sizeof(float));
    }
  });
  return in;
}

// Calls body(place, tokens) for the pairs of a piece's group, some at a time.
template <class Body>
void for_each_tokens(const Piece& piece, const Body& body) {
  for (int64_t place = piece.begin; place < piece.end; place += kRoundedTokens) {
    body(place, std::min(kRoundedTokens, piece.end - place));
  }
}

void compute_gate(Compute& compute, const ExpertBatch& batch, const Inputs& in, const Piece& piece, int64_t place,
                  int64_t tokens) {
  compute_product(compute.kernels(), piece, piece.expert.gate, in, place, tokens,
                  batch.hidden.row(place) + piece.first, batch.hidden.stride);
}

// Behind the gate's.
void compute_up(Compute& compute, const ExpertBatch& batch, const Inputs& in, const Piece& piece, int64_t place,
                int64_t tokens) {
  float* product = piece.scratch + products_at(batch.x.cols, batch.ffn);
  compute_product(compute.kernels(), piece, piece.expert.up, in, place, tokens, product, piece.rows);
  for (int64_t t = 0; t < tokens; t++) {
    activate(compute.kernels(), batch.formula, batch.hidden.row(place + t) + piece.first, product + t * piece.rows,
             piece.rows);
  }
}

// hidden = activation(gate x, up x), where both want their inputs alike.
void compute_hidden_piece(Compute& compute, const ExpertBatch& batch, const Inputs& in, const Piece& piece) {
  for_each_tokens(piece, [&](int64_t place, int64_t tokens) {
    compute_gate(compute, batch, in, piece, place, tokens);
    compute_up(compute, batch, in, piece, place, tokens);
  });
}

// Each pair's output goes to its own row, whatever order the experts are computed in.
void compute_down_piece(Compute& compute, const ExpertBatch& batch, const Inputs& in, const Piece& piece) {
  for_each_tokens(piece, [&](int64_t place, int64_t tokens) {
    float* out = piece.scratch + products_at(batch.x.cols, batch.ffn);
    compute_product(compute.kernels(), piece, piece.expert.down, in, place, tokens, out, piece.rows);
    for (int64_t t = 0; t < tokens; t++) {
      std::memcpy(batch.y.row(batch.groups.order[place + t]) + piece.first, out + t * piece.rows,
                  static_cast<size_t>(piece.rows) * sizeof(float));
    }
  });
}

// Where gate and up want their inputs rounded differently, gate comes first for all.
void compute_hidden(Compute& compute, const ExpertBatch& batch) {
  const PlacedExpert any = batch.places.expert(0);
  const kernels::ActFormat gate_format = input_format(batch, any.gate);
  const kernels::ActFormat up_format = input_format(batch, any.up);
  Inputs in = gather_inputs(compute, batch, gate_format);
  if (gate_format == up_format) {
    for_each_piece(compute, batch, batch.ffn,
                   [&](const Piece& piece) { compute_hidden_piece(compute, batch, in, piece); });
    return;
  }
  for_each_piece(compute, batch, batch.ffn, [&](const Piece& piece) {
    for_each_tokens(piece, [&](int64_t place, int64_t tokens) {
      compute_gate(compute, batch, in, piece, place, tokens);
    });
  });
  in = gather_inputs(compute, batch, up_format);
  for_each_piece(compute, batch, batch.ffn, [&](const Piece& piece) {
    for_each_tokens(piece, [&](int64_t place, int64_t tokens) {
      compute_up(compute, batch, in, piece, place, tokens);
    });
  });
}

void compute_down(Compute& compute, const ExpertBatch& batch) {
  Inputs in{input_format(batch, batch.places.expert(0).down), batch.hidden};
  if (in.format != kernels::ActFormat::kNone) {
    in.rows = batch.inputs;
    round_groups(compute, batch, {batch.hidden.data(), batch.hidden.stride}, batch.ffn, in);
  }
  for_each_piece(compute, batch, batch.x.cols,
                 [&](const Piece& piece) { compute_down_piece(compute, batch, in, piece); });
}

// A group's hidden rows as its down products take them, rounded by whoever multiplies them.
Inputs own_hidden(Compute& compute, const ExpertBatch& batch, const Piece& group, kernels::ActFormat format) {
  Inputs in{format, batch.hidden};
  if (format == kernels::ActFormat::kNone) return in;
  auto* own = reinterpret_cast<uint8_t*>(group.scratch + own_rows_at(batch.x.cols, batch.ffn));
  round_some(compute.kernels(), format, FloatRows{batch.hidden.row(group.begin), batch.hidden.stride}, batch.ffn,
             group.end - group.begin, false, own, group.scratch);
  in.own = own;
  return in;
}

bool is_few(const ExpertBatch& batch) {
  const PlacedExpert any = batch.places.expert(0);
  return most_pairs(batch.groups) <= kernels::kFewRows && batch.groups.n <= ThreadPool::kRoundsTwiceMax &&
         input_format(batch, any.gate) == input_format(batch, any.up);
}

// Groups of a few pairs in one job: whoever has its share of the hidden rows of all experts goes on to the outputs of
// the first one, whose other hidden rows are there by then, so that memory is read all the time.
void compute_few(Compute& compute, const ExpertBatch& batch) {
  const PairGroups& groups = batch.groups;
  const PlacedExpert any = batch.places.expert(0);
  const Inputs in = gather_inputs(compute, batch, input_format(batch, any.gate));
  const kernels::ActFormat down_format = input_format(batch, any.down);
  const int64_t n_shares = compute.pool().n_threads();
  const int64_t most_rows = units_that_fit(most_pairs(groups)) * kPieceRows;
  const int64_t scratch_floats = expert_scratch(batch.x.cols, batch.ffn);
  const auto group_of = [&](int64_t g, int worker) {
    return Piece{batch.places.expert(g), groups.begins[g], groups.begins[g + 1], 0, 0,
                 compute.scratch(worker, scratch_floats)};
  };
  const auto for_rows = [&](Piece piece, int64_t total_rows, int64_t share, const auto& body) {
    const RowShare own = share_of(total_rows, share, n_shares);
    for (piece.first = own.first; piece.first < own.end; piece.first += most_rows) {
      piece.rows = std::min(most_rows, own.end - piece.first);
      body(piece);
    }
  };
  compute.pool().for_each_share_twice(
      groups.n,
      [&](int64_t g, int64_t share, int worker) {
        for_rows(group_of(g, worker), batch.ffn, share,
                 [&](const Piece& piece) { compute_hidden_piece(compute, batch, in, piece); });
      },
      [&](int64_t g, int64_t share, int worker) {
        const Piece group = group_of(g, worker);
        const Inputs hidden = own_hidden(compute, batch, group, down_format);
        for_rows(group, batch.x.cols, share,
                 [&](const Piece& piece) { compute_down_piece(compute, batch, hidden, piece); });
      });
}

}  // namespace

PlacedExpert placed(const ExpertBlob& blob, const std::byte* at) {
  return {placed_matrix(blob.gate, at), placed_matrix(blob.up, at), placed_matrix(blob.down, at)};
}

void PairGroups::sort(const View<int32_t>& ids, int64_t n_rows, int64_t n_experts, const int32_t* slot_of,
                      bool in_slot) {
  const int64_t k = ids.cols;
  const auto wanted = [&](int32_t e) { return slot_of == nullptr || (slot_of[e] >= 0) == in_slot; };
  std::fill(next, next + n_experts, 0);
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t j = 0; j < k; j++) next[ids.row(r)[j]]++;
  }
  n = 0;
  int32_t begin = 0;
  for (int32_t e = 0; e < static_cast<int32_t>(n_experts); e++) {
    const int32_t count = wanted(e) ? next[e] : 0;
    next[e] = begin;
    if (count == 0) continue;
    experts[n] = e;
    begins[n++] = begin;
    begin += count;
  }
  begins[n] = begin;
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t j = 0; j < k; j++) {
      const int32_t e = ids.row(r)[j];
      if (wanted(e)) order[next[e]++] = static_cast<int32_t>(r * k + j);
    }
  }
}

void compute_experts(Compute& compute, const ExpertBatch& batch) {
  if (batch.groups.n == 0) return;
  if (is_few(batch)) return compute_few(compute, batch);
  compute_hidden(compute, batch);
  compute_down(compute, batch);
}

void touch_experts(Compute& compute, const ExpertPlaces& places, int64_t n, FunctionRef<bool()> stop) {
  const int64_t n_shares = compute.pool().n_threads();
  compute.pool().for_each_share(n, [&](int64_t i, int64_t share, int) {
    const PlacedExpert expert = places.expert(i);
    for (const PlacedMatrix* m : {&expert.gate, &expert.up, &expert.down}) {
      const RowShare own = share_of(m->w.rows, share, n_shares);
      for (int64_t row = own.first; row < own.end && !stop(); row += kTouchRows) {
        const int64_t rows = std::min(kTouchRows, own.end - row);
        touch(m->w.data + static_cast<size_t>(row) * m->w.row_bytes, static_cast<size_t>(rows) * m->w.row_bytes);
      }
    }
  });
}

int64_t expert_scratch(int64_t dim, int64_t ffn) { return own_rows_at(dim, ffn) + own_rows_floats(ffn); }

}  // namespace strata::device::host
