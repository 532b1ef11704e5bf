#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/host/host_ops.h"
#include "device/host/rounded.h"

namespace strata::device::host {

void run(const Embed& op, Compute& compute) {
  const kernels::Matrix table = op.table.matrix();
  compute.pool().for_each(op.live.data()[0], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const int64_t id = op.ids.data()[r];
      DASSERT(id >= 0);
      DASSERT(id < table.rows);
      compute.kernels().decode(table.type, table.data + static_cast<size_t>(id) * table.row_bytes, op.y.row(r),
                               static_cast<size_t>(table.cols));
    }
  });
}

void run(const RmsNorm& op, Compute& compute) {
  compute.pool().for_each(op.live.data()[0], 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      compute.kernels().rms_norm(op.x.row(r), op.gain.data(), op.y.row(r), op.x.cols, op.eps);
    }
  });
}

namespace {

kernels::ActFormat act_format(const MatMul& op) { return kernels::act_format(op.w.type); }

// The first thread's scratch holds the rounded rows of all behind its own.
int64_t rounded_scratch(const MatMul& op) {
  return rounding_scratch(act_format(op), op.w.cols) +
         static_cast<int64_t>(rounded_bytes(act_format(op), op.w.cols, op.x.rows) / sizeof(float));
}

void run_rounded(const MatMul& op, Compute& compute) {
  const kernels::Matrix w = op.w.matrix();
  const int64_t n_tokens = op.live.data()[0];
  const int64_t own = rounding_scratch(act_format(op), w.cols);
  auto* rounded = reinterpret_cast<uint8_t*>(compute.scratch(0, rounded_scratch(op)) + own);
  const RoundedRows x = round_rows(compute, act_format(op), {op.x.data(), op.x.stride}, w.cols, n_tokens, rounded);
  const kernels::Q8Out out{op.y.data(), op.y.stride, op.bias.empty() ? nullptr : op.bias.data(), op.accumulate};
  compute.pool().for_each_shrinking(w.rows, kStripGrain, [&](int64_t begin, int64_t end, int worker) {
    compute.kernels().matmul_q8(w, begin, end, x.data, x.n, x.tiles, out, compute.scratch(worker, own));
  });
}

// Products of pairs of rounded rows that a thread has room for: of a strip with all rows, or of many weight rows with
// few.
int64_t twice_products(const MatMul& op) { return kStripGrain * std::max<int64_t>(op.x.rows, 64); }
int64_t twice_own_scratch(const MatMul& op) {
  return rounding_twice_scratch(act_format(op), op.w.cols) + 2 * twice_products(op);
}
int64_t twice_scratch(const MatMul& op) {
  return twice_own_scratch(op) +
         static_cast<int64_t>(rounded_bytes(act_format(op), op.w.cols, 2 * op.x.rows) / sizeof(float));
}

// y[t] = W first[t] + W second[t] (+ bias) (+ y[t])
void run_rounded_twice(const MatMul& op, Compute& compute) {
  const kernels::Matrix w = op.w.matrix();
  const int64_t n = op.live.data()[0];
  const int64_t own = twice_own_scratch(op);
  auto* rounded = reinterpret_cast<uint8_t*>(compute.scratch(0, twice_scratch(op)) + own);
  const RoundedRows x = round_rows_twice(compute, act_format(op), {op.x.data(), op.x.stride}, w.cols, n, rounded);
  const int64_t most_rows = twice_products(op) / std::max<int64_t>(n, 1) / kStripGrain * kStripGrain;
  compute.pool().for_each_shrinking(w.rows, kStripGrain, [&](int64_t begin, int64_t end, int worker) {
    float* products = compute.scratch(worker, own);
    float* scratch = products + 2 * twice_products(op);
    for (int64_t first = begin; first < end; first += most_rows) {
      const int64_t rows = std::min(most_rows, end - first);
      kernels::Matrix strip = w;
      strip.data += static_cast<size_t>(first) * w.row_bytes;
      strip.rows = rows;
      compute.kernels().matmul_q8(strip, 0, rows, x.data, x.n, x.tiles, {products, rows}, scratch);
      for (int64_t t = 0; t < n; t++) {
        float* y = op.y.row(t) + first;
        for (int64_t i = 0; i < rows; i++) {
          float value = products[2 * t * rows + i] + products[(2 * t + 1) * rows + i];
          if (!op.bias.empty()) value += op.bias.data()[first + i];
          y[i] = op.accumulate ? y[i] + value : value;
        }
      }
    }
  });
}

}  // namespace

int64_t scratch_floats(const MatMul& op) {
  if (op.w.rounding == Rounding::kOnce) return rounded_scratch(op);
  if (op.w.rounding == Rounding::kTwice) return twice_scratch(op);
  return matmul_scratch(op.w.cols) + (op.accumulate || !op.bias.empty() ? kRowGrain * kTokenTile : 0);
}

void run(const MatMul& op, Compute& compute) {
  if (op.w.rounding == Rounding::kOnce) return run_rounded(op, compute);
  if (op.w.rounding == Rounding::kTwice) return run_rounded_twice(op, compute);
  const kernels::Matrix w = op.w.matrix();
  const int64_t n_tokens = op.live.data()[0];
  if (!op.accumulate && op.bias.empty()) {
    matmul(compute, w, op.x.data(), op.x.stride, n_tokens, op.y.data(), op.y.stride);
    return;
  }
  // Products of a few rows go to scratch first, then bias and the old value join them, always in that order.
  const auto add_rows = [&](int64_t first, int64_t count, int64_t t0, int64_t tokens, const float* product) {
    for (int64_t t = 0; t < tokens; t++) {
      float* y = op.y.row(t0 + t) + first;
      for (int64_t i = 0; i < count; i++) {
        float value = product[t * kRowGrain + i];
        if (!op.bias.empty()) value += op.bias.data()[first + i];
        y[i] = op.accumulate ? y[i] + value : value;
      }
    }
  };
  compute.pool().for_each_shrinking(w.rows, kRowGrain, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = compute.scratch(worker, matmul_scratch(w.cols) + kRowGrain * kTokenTile);
    float* product = scratch + matmul_scratch(w.cols);
    for (int64_t first = begin; first < end; first += kRowGrain) {
      const int64_t count = std::min(kRowGrain, end - first);
      kernels::Matrix rows = w;
      rows.data += static_cast<size_t>(first) * w.row_bytes;
      rows.rows = count;
      for (int64_t t = 0; t < n_tokens; t += kTokenTile) {
        const int64_t tokens = std::min(kTokenTile, n_tokens - t);
        compute.kernels().matmul(rows, 0, count, op.x.row(t), op.x.stride, tokens, product, kRowGrain, scratch);
        add_rows(first, count, t, tokens, product);
      }
    }
  });
}

int64_t scratch_floats(const Project& op) {
  int64_t most = 0;
  for (int i = 0; op.has(i); i++) most = std::max(most, scratch_floats(op.product(i)));
  return most;
}

void run(const Project& op, Compute& compute) {
  if (!op.gain.empty()) run(op.norm(), compute);
  for (int i = 0; op.has(i); i++) run(op.product(i), compute);
}

void run(const SiluMul& op, Compute& compute) {
  compute.pool().for_each(op.live.data()[0], 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      compute.kernels().silu_mul(op.gate.row(r), op.up.row(r), op.gate.row(r), op.gate.cols);
    }
  });
}

void run(const AddGated& op, Compute& compute) {
  compute.pool().for_each(op.live.data()[0], 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const float factor = op.gate.empty() ? 1.0f : 1.0f / (1.0f + std::exp(-op.gate.row(r)[0]));
      compute.kernels().axpy(factor, op.y.row(r), op.x.row(r), op.x.cols);
    }
  });
}

void run(const GatherRows& op, Compute&) {
  for (int64_t i = 0; i < op.live.data()[0]; i++) {
    std::memcpy(op.y.row(i), op.x.row(op.rows.data()[i]), static_cast<size_t>(op.x.cols) * sizeof(float));
  }
}

}  // namespace strata::device::host
