// Routed experts in slots, and their results beside those that came from elsewhere.
#include <algorithm>
#include <cmath>

#include "device/op_case.h"
#include "device/random_weights.h"
#include "kernels/ref/ref.h"

namespace strata::test {

using device::Device;
using device::ExpertBlob;
using device::ExpertFormula;
using device::ExpertMatrix;

namespace {

constexpr int64_t kBucket = 7, kLive = 5;
constexpr int64_t kUsed = 3, kExperts = 6, kSlots = 4;
// Slots in another order than the experts; two experts are in none.
constexpr int32_t kSlotOf[kExperts] = {2, -1, 0, 3, -1, 1};

struct ExpertForm {
  const char* name;
  quant::Type type;
  int64_t dim, ffn;
  bool extras;  // biases and scales
  ExpertFormula formula;
};

// A value in doubles and the size of the terms it was summed from, to which rounding errors are relative.
struct Sum {
  double value = 0;
  double size = 0;
};

class ExpertBytes {
 public:
  explicit ExpertBytes(const ExpertForm& form) : form_(form) {
    blob_.gate = add_matrix(form.ffn, form.dim);
    blob_.up = add_matrix(form.ffn, form.dim);
    blob_.down = add_matrix(form.dim, form.ffn);
    blob_.bytes = align_up(end_, 64);
  }
  const ExpertBlob& blob() const { return blob_; }

  void fill(uint8_t* at, Random& random) const {
    for (const ExpertMatrix* m : {&blob_.gate, &blob_.up, &blob_.down}) {
      const auto bytes = random_weights(form_.type, static_cast<size_t>(m->rows * m->cols), random);
      std::memcpy(at + m->offset, bytes.data(), bytes.size());
      if (!form_.extras) continue;
      store_le(at + m->scale_offset, static_cast<float>(0.5 + random.uniform()));
      for (int64_t i = 0; i < m->rows; i++) store_le(at + m->bias_offset + 4 * i, static_cast<float>(random.normal()));
    }
  }

  // The formula for one input row.
  std::vector<Sum> output(const uint8_t* at, const float* x) const {
    std::vector<Sum> in;
    for (int64_t i = 0; i < form_.dim; i++) in.push_back({x[i], std::abs(double{x[i]})});
    const std::vector<Sum> gate = product(blob_.gate, at, in), up = product(blob_.up, at, in);
    std::vector<Sum> hidden;
    for (size_t i = 0; i < gate.size(); i++) hidden.push_back(activated(gate[i], up[i]));
    return product(blob_.down, at, hidden);
  }

 private:
  ExpertMatrix add_matrix(int64_t rows, int64_t cols) {
    ExpertMatrix m{form_.type, rows, cols, quant::row_bytes(form_.type, static_cast<size_t>(cols)), end_};
    end_ += static_cast<size_t>(rows) * m.row_bytes;
    if (!form_.extras) return m;
    // Floats need no alignment.
    m.scale_offset = static_cast<int64_t>(++end_);
    m.bias_offset = m.scale_offset + 4;
    end_ += 4 + static_cast<size_t>(4 * rows);
    return m;
  }

  std::vector<Sum> product(const ExpertMatrix& m, const uint8_t* at, const std::vector<Sum>& in) const {
    const std::vector<float> w = decoded(m.type, at + m.offset, static_cast<size_t>(m.rows * m.cols));
    const double scale = form_.extras ? double{load_le<float>(at + m.scale_offset)} : 1;
    std::vector<Sum> out;
    for (int64_t r = 0; r < m.rows; r++) {
      Sum sum;
      for (int64_t c = 0; c < m.cols; c++) {
        const double weight = w[static_cast<size_t>(r * m.cols + c)] * scale;
        sum.value += weight * in[static_cast<size_t>(c)].value;
        sum.size += std::abs(weight) * in[static_cast<size_t>(c)].size;
      }
      if (form_.extras) {
        const double bias = load_le<float>(at + m.bias_offset + 4 * r);
        sum = {sum.value + bias, sum.size + std::abs(bias)};
      }
      out.push_back(sum);
    }
    return out;
  }

  // The slopes of both formulas in g are at most 1.1 + |alpha g| times the other factor.
  Sum activated(const Sum& gate, const Sum& up) const {
    double g = gate.value, u = up.value, factor = 0;
    if (form_.formula.activation == ExpertFormula::Activation::kSiluMul) {
      factor = kernels::ref::silu(g);
    } else {
      g = std::min<double>(g, form_.formula.limit);
      u = std::clamp<double>(u, -form_.formula.limit, form_.formula.limit) + 1;
      factor = g * kernels::ref::sigmoid(form_.formula.alpha * g);
    }
    const double value = factor * u;
    return {value, std::abs(factor) * (up.size + 1) + 1.5 * std::abs(u) * gate.size + std::abs(value)};
  }

  ExpertForm form_;
  ExpertBlob blob_;
  size_t end_ = 0;
};

void fill_routing(const Grid<int32_t>& ids, const Grid<int32_t>& slot_of, Random& random) {
  for (int64_t r = 0; r < kBucket; r++) {
    const auto first = static_cast<int64_t>(random.below(kExperts));
    for (int64_t j = 0; j < kUsed; j++) {
      // Rows past the live ones name no expert.
      ids.at(r, j) = r < kLive ? static_cast<int32_t>((first + j * 2 + j / 2) % kExperts) : -1;
    }
  }
  slot_of.set_row(0, {kSlotOf, kSlotOf + kExperts});
}

void expert_ffn(Device& device, OpCases& cases, const ExpertForm& form) {
  OpCase& c = add_case<device::ExpertFfn>(device, cases, form.name);
  const ExpertBytes bytes(form);
  // Room between the slots, so that an operation that computes their places itself meets something else.
  const auto stride = static_cast<int64_t>(bytes.blob().bytes) + 64;
  const auto slots = c.packed<uint8_t>(kSlots, stride);
  const auto offsets = c.grid<int64_t>(1, kSlots);
  const auto x = c.grid<float>(kBucket, form.dim);
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto slot_of = c.grid<int32_t>(1, kExperts);
  const auto live = c.count_grid();
  const auto inputs = c.grid<float>(kBucket * kUsed, std::max(form.dim, form.ffn));
  const auto hidden = c.grid<float>(kBucket * kUsed, form.ffn);
  const auto groups = c.packed<int32_t>(1, device::expert_group_ints(kBucket * kUsed, kExperts));
  const auto y = c.grid<float>(kBucket * kUsed, form.dim);
  c.fill = [=](Random& random) {
    for (int64_t s = 0; s < kSlots; s++) {
      bytes.fill(slots->row(s), random);
      offsets->at(0, s) = s * stride;
    }
    x->fill_normal(random, 0.3);
    fill_routing(*ids, *slot_of, random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::ExpertFfn{.x = *x, .ids = *ids, .live = *live, .slot_of = *slot_of,
                                .slots = {slots->memory(), *offsets}, .blob = bytes.blob(), .formula = form.formula,
                                .inputs = *inputs, .hidden = *hidden, .groups = *groups, .y = *y});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const double roundings = 16 + static_cast<double>(form.dim + form.ffn) / 4;
    for (int64_t p = 0; p < kLive * kUsed; p++) {
      const int32_t slot = kSlotOf[ids->at(p / kUsed, p % kUsed)];
      if (slot < 0) continue;
      const std::vector<Sum> out = bytes.output(slots->row(slot), x->row(p / kUsed));
      for (int64_t i = 0; i < form.dim; i++) {
        const Sum& sum = out[static_cast<size_t>(i)];
        wants.push_back({y->row(p) + i, sum.value, roundings * kRounding * sum.size});
      }
    }
    for (int64_t p = 0; p < kBucket * kUsed; p++) {
      want_scratch(wants, inputs->row(p), inputs->cols());
      want_scratch(wants, hidden->row(p), form.ffn);
    }
    want_scratch(wants, groups->row(0), groups->cols());
    return wants;
  };
}

void merge_expert_rows(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::MergeExpertRows>(device, cases, "");
  constexpr int64_t kDim = 33;
  const auto x = c.grid<float>(kBucket * kUsed, kDim);
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto slot_of = c.grid<int32_t>(1, kExperts);
  const auto live = c.count_grid();
  const auto y = c.grid<float>(kBucket * kUsed, kDim);
  c.fill = [=](Random& random) {
    x->fill_normal(random);
    y->fill_normal(random);
    fill_routing(*ids, *slot_of, random);
    live->at(0, 0) = kLive;
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::MergeExpertRows{.x = *x, .ids = *ids, .live = *live, .slot_of = *slot_of, .y = *y});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t p = 0; p < kLive * kUsed; p++) {
      if (kSlotOf[ids->at(p / kUsed, p % kUsed)] >= 0) continue;
      want_row(wants, y->row(p), {x->row(p), x->row(p) + kDim}, 0);
    }
    return wants;
  };
}

}  // namespace

void add_expert_cases(Device& device, OpCases& cases) {
  using quant::Type;
  const ExpertFormula clamped{ExpertFormula::Activation::kSwigluClamped, 1.702f, 7.0f};
  expert_ffn(device, cases, {"_f32", Type::F32, 36, 70, false, {}});
  expert_ffn(device, cases, {"_q8_0_extras", Type::Q8_0, 64, 96, true, {}});
  expert_ffn(device, cases, {"_mxfp4_clamped", Type::MXFP4, 64, 32, true, clamped});
  merge_expert_rows(device, cases);
}

}  // namespace strata::test
