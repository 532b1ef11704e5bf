// Dispatch on a device whose memory the host can read: all experts are computed on the CPU pool, straight from their
// leases.
#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "experts/dispatch.h"

namespace strata::experts {
namespace {

using device::In;
using device::InOut;
using device::View;
using device::host::Compute;
using device::host::kTokenTile;
using device::host::matmul_scratch;

// Weight rows of an expert that one worker computes at once.
constexpr int64_t kPieceRows = 32;

// The (row, rank) pairs of a step that go to one expert: pairs [begin, end) of the sorted order.
struct Group {
  int32_t expert;
  int64_t begin, end;
};

class HostDispatch final : public Dispatch {
 public:
  HostDispatch(Compute& compute, ExpertSource& source, const ExpertLayout& layout, const DispatchLimits& limits,
               Stats& stats)
      : compute_(compute), source_(source), layout_(layout), limits_(limits), stats_(stats) {}

  Status allocate(device::Device& device) {
    const int64_t pairs = limits_.max_rows * limits_.n_used;
    const auto floats = [&](std::unique_ptr<device::Buffer>& buffer, int64_t cols, const char* name) -> Status {
      ASSIGN_OR_RETURN(buffer, device.allocate(static_cast<size_t>(pairs * cols) * sizeof(float), name));
      return {};
    };
    RETURN_IF_ERROR(floats(gathered_, limits_.dim, "expert inputs"));
    RETURN_IF_ERROR(floats(gate_, limits_.ffn, "expert gate rows"));
    RETURN_IF_ERROR(floats(up_, limits_.ffn, "expert up rows"));
    RETURN_IF_ERROR(floats(rows_, limits_.dim, "expert output rows"));
    int32_t n_experts = 0;
    for (const LayerLayout& layer : layout_.layers()) n_experts = std::max(n_experts, layer.n_experts);
    order_.resize(static_cast<size_t>(pairs));
    groups_.reserve(static_cast<size_t>(n_experts));
    keys_.reserve(static_cast<size_t>(n_experts));
    leases_.resize(static_cast<size_t>(n_experts));
    counts_.resize(static_cast<size_t>(n_experts));
    tasks_.resize(layout_.layers().size());
    return compute_.reserve_scratch(matmul_scratch(std::max(limits_.dim, limits_.ffn)) + kPieceRows * kTokenTile);
  }

  void run(device::Stream& stream, int32_t layer, const In<int32_t>& ids, const In<float>& weights, const In<float>& x,
           const InOut<float>& y, const In<int32_t>& live, const ExpertFormula& formula) override {
    LayerTask& task = layer_task(layer, ids, x, live, formula);
    const View<float> rows = device::view_of<float>(*rows_, x.rows * limits_.n_used, limits_.dim);
    stream.wait(stream.host_task(task.task));
    stream.enqueue(device::Combine{.rows = rows, .weights = weights, .ids = ids, .live = live, .x = y});
  }

 private:
  struct LayerTask {
    device::HostTask task;
    int32_t layer;
    In<int32_t> ids;
    In<float> x;
    In<int32_t> live;
    ExpertFormula formula;
  };

  LayerTask& layer_task(int32_t layer, const In<int32_t>& ids, const In<float>& x, const In<int32_t>& live,
                        const ExpertFormula& formula) {
    std::unique_ptr<LayerTask>& slot = tasks_[static_cast<size_t>(layer)];
    if (slot) {
      ASSERT(slot->ids.memory == ids.memory && slot->ids.offset == ids.offset && slot->ids.stride == ids.stride);
      ASSERT(slot->x.memory == x.memory && slot->x.offset == x.offset && slot->x.stride == x.stride);
      return *slot;
    }
    slot = std::make_unique<LayerTask>(LayerTask{{}, layer, ids, x, live, formula});
    LayerTask* task = slot.get();
    task->task.name = "experts";
    task->task.run = [this, task] { return compute_layer(*task); };
    const View<float> rows = device::view_of<float>(*rows_, limits_.max_rows * limits_.n_used, limits_.dim);
    task->task.ranges = {ids.range(false), x.range(false), live.range(false), rows.range(true)};
    return *slot;
  }

  Status compute_layer(const LayerTask& task) {
    const int64_t n_rows = task.live.data()[0];
    ASSERT(n_rows <= limits_.max_rows);
    group_pairs(task, n_rows);
    keys_.clear();
    for (const Group& group : groups_) keys_.push_back({task.layer, group.expert});
    const std::span<Lease> leases(leases_.data(), keys_.size());
    RETURN_IF_ERROR(source_.fetch(keys_, leases));
    gather_inputs(task);
    const LayerLayout& layer = layout_.layer(task.layer);
    compute_hidden(layer, task);
    compute_down(layer);
    for (Lease& lease : leases) lease.release();
    stats_.add(Counter::kExpertsComputed, static_cast<int64_t>(groups_.size()));
    stats_.add(Counter::kExpertRows, n_rows * limits_.n_used);
    return source_.health();
  }

  // Sorts the pairs by expert (counting sort; within an expert in row order).
  void group_pairs(const LayerTask& task, int64_t n_rows) {
    const int64_t k = limits_.n_used;
    std::fill(counts_.begin(), counts_.end(), 0);
    for (int64_t r = 0; r < n_rows; r++) {
      for (int64_t j = 0; j < k; j++) counts_[static_cast<size_t>(task.ids.row(r)[j])]++;
    }
    groups_.clear();
    int64_t begin = 0;
    for (size_t e = 0; e < counts_.size(); e++) {
      const int64_t count = counts_[e];
      if (count > 0) groups_.push_back({static_cast<int32_t>(e), begin, begin + count});
      counts_[e] = begin;
      begin += count;
    }
    for (int64_t r = 0; r < n_rows; r++) {
      for (int64_t j = 0; j < k; j++) {
        order_[static_cast<size_t>(counts_[static_cast<size_t>(task.ids.row(r)[j])]++)] =
            static_cast<int32_t>(r * k + j);
      }
    }
  }

  // Inputs of a group side by side, so that a decoded weight row serves all of them.
  void gather_inputs(const LayerTask& task) {
    const int64_t pairs = groups_.empty() ? 0 : groups_.back().end;
    compute_.pool().for_each(pairs, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) {
        const int64_t row = order_[static_cast<size_t>(i)] / limits_.n_used;
        std::memcpy(floats(*gathered_) + i * limits_.dim, task.x.row(row),
                    static_cast<size_t>(limits_.dim) * sizeof(float));
      }
    });
  }

  // Calls body(group, lease, first_row, n_rows, worker) for every piece of `total_rows` weight rows of every group.
  template <class Body>
  void for_each_piece(int64_t total_rows, const Body& body) {
    const int64_t pieces = (total_rows + kPieceRows - 1) / kPieceRows;
    const int64_t items = static_cast<int64_t>(groups_.size()) * pieces;
    compute_.pool().for_each(items, compute_.grain(items, 1), [&](int64_t begin, int64_t end, int worker) {
      for (int64_t item = begin; item < end; item++) {
        const size_t g = static_cast<size_t>(item / pieces);
        const int64_t first = item % pieces * kPieceRows;
        body(groups_[g], leases_[g], first, std::min(kPieceRows, total_rows - first), worker);
      }
    });
  }

  static kernels::Matrix piece(const BlobPart& part, const Lease& lease, int index, int64_t first, int64_t rows) {
    const auto* data = reinterpret_cast<const uint8_t*>(lease.part(index));
    return {part.type, data + static_cast<size_t>(first) * part.row_bytes, rows, part.cols, part.row_bytes};
  }

  // out[i][0..rows) for the pairs of a group: products of weight rows [first, first+rows) with in[i], times the scale,
  // plus the bias.
  struct Product {
    PartKind weight, bias, scale;
    int64_t first;       // row of the part
    int64_t bias_first;  // element of the bias
    int64_t rows;
    const float* in;
    int64_t in_stride;
    float* out;
    int64_t out_stride;
  };
  void product(const LayerLayout& layer, const Lease& lease, const Product& p, int64_t tokens, float* scratch) const {
    const int w = layer.index(p.weight);
    const kernels::Matrix rows = piece(layer.parts[static_cast<size_t>(w)], lease, w, p.first, p.rows);
    compute_.kernels().matmul(rows, 0, p.rows, p.in, p.in_stride, tokens, p.out, p.out_stride, scratch);
    const int scale = layer.index(p.scale);
    const int bias = layer.index(p.bias);
    if (scale < 0 && bias < 0) return;
    float factor = 1;
    if (scale >= 0) std::memcpy(&factor, lease.part(scale), sizeof factor);
    for (int64_t t = 0; t < tokens; t++) {
      float* out = p.out + t * p.out_stride;
      for (int64_t i = 0; i < p.rows; i++) {
        float value = out[i] * factor;
        if (bias >= 0)
          value += load_le<float>(lease.part(bias) + static_cast<size_t>(p.bias_first + i) * sizeof(float));
        out[i] = value;
      }
    }
  }

  void compute_hidden(const LayerLayout& layer, const LayerTask& task) {
    const bool fused = layer.index(PartKind::kGateUp) >= 0;
    for_each_piece(limits_.ffn, [&](const Group& group, const Lease& lease, int64_t first, int64_t rows, int worker) {
      float* scratch = compute_.scratch(worker, matmul_scratch(limits_.dim));
      for (int64_t i = group.begin; i < group.end; i += kTokenTile) {
        const int64_t tokens = std::min(kTokenTile, group.end - i);
        Product gate{fused ? PartKind::kGateUp : PartKind::kGate,
                     PartKind::kGateBias,
                     PartKind::kGateScale,
                     first,
                     first,
                     rows,
                     floats(*gathered_) + i * limits_.dim,
                     limits_.dim,
                     floats(*gate_) + i * limits_.ffn + first,
                     limits_.ffn};
        Product up = gate;
        up.weight = fused ? PartKind::kGateUp : PartKind::kUp;
        up.bias = PartKind::kUpBias;
        up.scale = PartKind::kUpScale;
        up.first = fused ? limits_.ffn + first : first;
        up.out = floats(*up_) + i * limits_.ffn + first;
        product(layer, lease, gate, tokens, scratch);
        product(layer, lease, up, tokens, scratch);
        for (int64_t t = 0; t < tokens; t++) {
          activate(task.formula, gate.out + t * limits_.ffn, up.out + t * limits_.ffn, rows);
        }
      }
    });
  }

  void activate(const ExpertFormula& formula, float* gate, const float* up, int64_t n) const {
    if (formula.activation == ExpertFormula::Activation::kSiluMul) {
      compute_.kernels().silu_mul(gate, up, gate, n);
    } else {
      compute_.kernels().swiglu_clamped(gate, up, gate, n, formula.alpha, formula.limit);
    }
  }

  // Each pair's output goes to its own row (token * k + rank), whatever order the experts are computed in.
  void compute_down(const LayerLayout& layer) {
    for_each_piece(limits_.dim, [&](const Group& group, const Lease& lease, int64_t first, int64_t rows, int worker) {
      float* scratch = compute_.scratch(worker, matmul_scratch(limits_.ffn) + kPieceRows * kTokenTile);
      float* out = scratch + matmul_scratch(limits_.ffn);
      for (int64_t i = group.begin; i < group.end; i += kTokenTile) {
        const int64_t tokens = std::min(kTokenTile, group.end - i);
        product(layer, lease,
                {PartKind::kDown, PartKind::kDownBias, PartKind::kDownScale, first, first, rows,
                 floats(*gate_) + i * limits_.ffn, limits_.ffn, out, kPieceRows},
                tokens, scratch);
        for (int64_t t = 0; t < tokens; t++) {
          std::memcpy(floats(*rows_) + order_[static_cast<size_t>(i + t)] * limits_.dim + first, out + t * kPieceRows,
                      static_cast<size_t>(rows) * sizeof(float));
        }
      }
    });
  }

  static float* floats(const device::Buffer& buffer) { return reinterpret_cast<float*>(buffer.address()); }

  Compute& compute_;
  ExpertSource& source_;
  const ExpertLayout& layout_;
  DispatchLimits limits_;
  Stats& stats_;
  std::unique_ptr<device::Buffer> gathered_;  // [pairs][dim], in sorted order
  std::unique_ptr<device::Buffer> gate_;      // [pairs][ffn], in sorted order; becomes the hidden rows
  std::unique_ptr<device::Buffer> up_;        // [pairs][ffn]
  std::unique_ptr<device::Buffer> rows_;      // [pairs][dim], row = token * k + rank
  std::vector<int32_t> order_;                // [pairs] sorted place -> row * k + rank
  std::vector<Group> groups_;
  std::vector<int64_t> counts_;
  std::vector<ExpertKey> keys_;
  std::vector<Lease> leases_;
  std::vector<std::unique_ptr<LayerTask>> tasks_;
};

}  // namespace

uint64_t Dispatch::bytes_needed(const DispatchLimits& limits) {
  return static_cast<uint64_t>(limits.max_rows * limits.n_used) *
         static_cast<uint64_t>(2 * limits.dim + 2 * limits.ffn) * sizeof(float);
}

Result<std::unique_ptr<Dispatch>> Dispatch::create(device::Device& device, Compute& compute, ExpertSource& source,
                                                   const ExpertLayout& layout, const DispatchLimits& limits,
                                                   Stats& stats) {
  ASSERT(device.host_accessible());
  auto dispatch = std::make_unique<HostDispatch>(compute, source, layout, limits, stats);
  RETURN_IF_ERROR(dispatch->allocate(device));
  return std::unique_ptr<Dispatch>(std::move(dispatch));
}

}  // namespace strata::experts
