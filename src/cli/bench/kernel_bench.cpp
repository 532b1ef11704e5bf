#include "cli/bench/kernel_bench.h"

#include <algorithm>
#include <memory>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/format.h"
#include "cli/bench/pages.h"
#include "cli/bench/sample_blocks.h"
#include "cli/bench/system.h"

namespace strata::cli {
namespace {

constexpr uint64_t kSeed = 1;
constexpr uint64_t kLeastBufferBytes = 256 * kMiB;
// A repetition makes calls for as long as this, and the last one of a combination begins before the second.
constexpr int64_t kRepetitionNs = 50'000'000;
constexpr int64_t kCombinationNs = 1'000'000'000;

struct alignas(64) Line {
  uint8_t bytes[64];
};
uint8_t* bytes_of(std::vector<Line>& lines) { return lines.data()->bytes; }

// What a product is computed from and into, for all tokens.
struct Operands {
  int64_t tokens = 0;
  int64_t cols = 0;
  std::vector<float> x;        // [tokens][cols]
  std::vector<float> y;        // [tokens][rows]
  std::vector<float> scratch;  // of the float products
  std::vector<Line> rounded;   // x in the form that the integer products take
  bool tiles = false;          // whether that is tiles
  std::vector<Line> q8_scratch;
};

// A way to compute a product. Preparing its operands takes no measured time: an engine does it once for all products
// that share them.
struct Path {
  const char* name;
  bool (*takes)(quant::Type type);
  void (*prepare)(const kernels::Kernels& kernels, quant::Type type, Operands& operands);
  void (*compute)(const kernels::Kernels& kernels, const kernels::Matrix& w, Operands& operands);
};

void round_rows(const kernels::Kernels& kernels, quant::Type type, Operands& o) {
  const kernels::ActFormat format = kernels::act_format(type);
  const size_t row_bytes = kernels::act_row_layout(format, o.cols).bytes;
  o.rounded.assign(static_cast<size_t>(o.tokens) * row_bytes / sizeof(Line), {});
  for (int64_t t = 0; t < o.tokens; t++) {
    kernels.quantize_row(format, o.x.data() + t * o.cols, o.cols,
                         bytes_of(o.rounded) + static_cast<size_t>(t) * row_bytes);
  }
}

void pack_tiles(const kernels::Kernels& kernels, quant::Type type, Operands& o) {
  const kernels::ActFormat format = kernels::act_format(type);
  const size_t row_bytes = kernels::act_row_layout(format, o.cols).bytes;
  const size_t tile_bytes = kernels::act_tile_layout(format, o.cols).bytes;
  const int64_t n_tiles = (o.tokens + kernels::kTileRows - 1) / kernels::kTileRows;
  std::vector<Line> tiles(static_cast<size_t>(n_tiles) * tile_bytes / sizeof(Line));
  for (int64_t i = 0; i < n_tiles; i++) {
    const int64_t first = i * kernels::kTileRows;
    const int n_rows = static_cast<int>(std::min<int64_t>(kernels::kTileRows, o.tokens - first));
    const uint8_t* rows[kernels::kTileRows] = {};
    for (int r = 0; r < n_rows; r++) rows[r] = bytes_of(o.rounded) + static_cast<size_t>(first + r) * row_bytes;
    kernels.pack_tile(format, rows, n_rows, o.cols, bytes_of(tiles) + static_cast<size_t>(i) * tile_bytes);
  }
  o.rounded = std::move(tiles);
}

constexpr Path kPaths[] = {
    {"float",
     [](quant::Type) { return true; },
     [](const kernels::Kernels&, quant::Type, Operands& o) { o.scratch.resize(static_cast<size_t>(o.cols)); },
     [](const kernels::Kernels& kernels, const kernels::Matrix& w, Operands& o) {
       kernels.matmul(w, 0, w.rows, o.x.data(), w.cols, o.tokens, o.y.data(), w.rows, o.scratch.data());
     }},
    {"q8",
     [](quant::Type type) { return kernels::act_format(type) != kernels::ActFormat::kNone; },
     [](const kernels::Kernels& kernels, quant::Type type, Operands& o) {
       o.tiles = kernels.has_tiles && o.tokens > kernels::kFewRows;
       round_rows(kernels, type, o);
       if (o.tiles) pack_tiles(kernels, type, o);
       o.q8_scratch.resize(kernels::kQ8ScratchBytes / sizeof(Line));
     },
     [](const kernels::Kernels& kernels, const kernels::Matrix& w, Operands& o) {
       const kernels::Q8Out out{.y = o.y.data(), .y_stride = w.rows};
       kernels.matmul_q8(w, 0, w.rows, bytes_of(o.rounded), o.tokens, o.tiles, out, o.q8_scratch.data());
     }},
};

Operands make_operands(const Shape& shape, int64_t tokens, Random& random) {
  Operands operands;
  operands.tokens = tokens;
  operands.cols = shape.cols;
  operands.x.resize(static_cast<size_t>(tokens * shape.cols));
  for (float& value : operands.x) value = static_cast<float>(random.normal());
  operands.y.resize(static_cast<size_t>(tokens * shape.rows));
  return operands;
}

// Copies of a matrix, one after the other; next() goes round.
class RotatingWeights {
 public:
  static Result<RotatingWeights> make(const quant::TypeInfo& type, const Shape& shape, Random& random,
                                      std::span<std::byte> buffer) {
    const size_t row_bytes = quant::row_bytes(type.type, static_cast<size_t>(shape.cols));
    const size_t bytes = row_bytes * static_cast<size_t>(shape.rows);
    RotatingWeights weights(type.type, shape, row_bytes, buffer.first(buffer.size() / bytes * bytes));
    RETURN_IF_ERROR(fill_with_blocks(type, random, weights.buffer_));
    return weights;
  }

  kernels::Matrix next() {
    const kernels::Matrix matrix{.type = type_,
                                 .data = reinterpret_cast<const uint8_t*>(buffer_.data()) + at_,
                                 .rows = shape_.rows,
                                 .cols = shape_.cols,
                                 .row_bytes = row_bytes_};
    at_ = (at_ + bytes()) % buffer_.size();
    return matrix;
  }
  size_t bytes() const { return row_bytes_ * static_cast<size_t>(shape_.rows); }

 private:
  RotatingWeights(quant::Type type, Shape shape, size_t row_bytes, std::span<std::byte> buffer)
      : type_(type), shape_(shape), row_bytes_(row_bytes), buffer_(buffer) {}

  quant::Type type_;
  Shape shape_;
  size_t row_bytes_;
  std::span<std::byte> buffer_;
  size_t at_ = 0;
};

Spread measure(const Path& path, const kernels::Kernels& kernels, RotatingWeights& weights, Operands& operands,
               int repetitions) {
  path.compute(kernels, weights.next(), operands);
  std::vector<double> seconds;
  const int64_t begin_ns = real_clock().now_ns();
  int64_t now_ns = begin_ns;
  while (static_cast<int>(seconds.size()) < repetitions && (seconds.empty() || now_ns - begin_ns < kCombinationNs)) {
    const int64_t from_ns = now_ns;
    int64_t n_calls = 0;
    do {
      path.compute(kernels, weights.next(), operands);
      n_calls++;
      now_ns = real_clock().now_ns();
    } while (now_ns - from_ns < kRepetitionNs);
    seconds.push_back(static_cast<double>(now_ns - from_ns) / 1e9 / static_cast<double>(n_calls));
  }
  return spread_of(std::move(seconds));
}

// The most that a combination of the options needs.
struct Needs {
  uint64_t weight_bytes = 0;
  uint64_t operand_bytes = 0;
};
Needs needs_of(const KernelBenchOptions& options) {
  Needs needs;
  const int64_t tokens = *std::max_element(options.tokens.begin(), options.tokens.end());
  for (const Shape& shape : options.shapes) {
    // Of each token a row of floats, and less than that of its rounded form and of its part of a tile.
    const int64_t floats = tokens * (shape.rows + 3 * shape.cols);
    needs.operand_bytes = std::max(needs.operand_bytes, static_cast<uint64_t>(floats) * sizeof(float));
    for (const quant::TypeInfo* type : options.types) {
      const uint64_t row_bytes = quant::row_bytes(type->type, static_cast<size_t>(shape.cols));
      needs.weight_bytes = std::max(needs.weight_bytes, row_bytes * static_cast<uint64_t>(shape.rows));
    }
  }
  return needs;
}

Result<std::unique_ptr<Pages>> allocate_buffer(const KernelBenchOptions& options) {
  const uint64_t wanted = options.buffer_bytes > 0 ? options.buffer_bytes
                                                   : std::max(kLeastBufferBytes, 2 * largest_cache_bytes());
  const Needs needs = needs_of(options);
  const uint64_t least = needs.weight_bytes + needs.operand_bytes;
  ASSIGN_OR_RETURN(const BufferSize size, buffer_size(std::max(wanted, least)));
  if (size.bytes < least) {
    return Error{ErrorCode::kNoMemory,
                 format("{} of weights and tokens do not fit into half of the available RAM, {}; give a smaller "
                        "--shape or --tokens", format_bytes(least), format_bytes(size.bytes))};
  }
  return Pages::allocate(std::max(std::min(size.bytes, wanted), needs.weight_bytes));
}

// One type and shape.
Status bench_weights(const KernelBenchOptions& options, RotatingWeights& weights, KernelResult result, Random& random,
                     const KernelSink& sink) {
  for (const int64_t tokens : options.tokens) {
    Operands operands = make_operands(result.shape, tokens, random);
    result.tokens = tokens;
    for (const kernels::Isa isa : options.isas) {
      result.isa = isa;
      for (const Path& path : kPaths) {
        const quant::Type type = result.type->type;
        if (!path.takes(type)) continue;
        path.prepare(kernels::kernels_for(isa), type, operands);
        result.path = path.name;
        result.seconds = measure(path, kernels::kernels_for(isa), weights, operands, options.repetitions);
        RETURN_IF_ERROR(sink(result));
      }
    }
  }
  return {};
}

}  // namespace

std::vector<const quant::TypeInfo*> product_types() {
  std::vector<const quant::TypeInfo*> types;
  for (const quant::TypeInfo& type : quant::all_types()) {
    if (type.in_files && type.decode != nullptr) types.push_back(&type);
  }
  return types;
}

Status bench_kernels(const KernelBenchOptions& options, const KernelSink& sink) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Pages> buffer, allocate_buffer(options));
  Random random(kSeed);
  for (const quant::TypeInfo* type : options.types) {
    for (const Shape& shape : options.shapes) {
      ASSIGN_OR_RETURN(RotatingWeights weights, RotatingWeights::make(*type, shape, random, buffer->bytes()));
      const KernelResult result{.type = type, .shape = shape, .weight_bytes = weights.bytes()};
      RETURN_IF_ERROR(bench_weights(options, weights, result, random, sink));
    }
  }
  return {};
}

}  // namespace strata::cli
