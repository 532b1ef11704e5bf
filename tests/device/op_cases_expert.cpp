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
constexpr int64_t kLinkedExpert = 4;  // of those in none, the one that is linked where one is

struct ExpertForm {
  const char* name;
  quant::Type type;
  int64_t dim, ffn;
  bool extras;  // biases and scales
  ExpertFormula formula;
  bool linked = false;
  bool summed = false;
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
  const auto elsewhere = c.packed<uint8_t>(1, stride), linked = c.packed<uint8_t>(1, stride);
  const auto memories = std::make_shared<std::vector<const device::Memory*>>(
      std::vector<const device::Memory*>{elsewhere->memory(), linked->memory()});
  const auto linked_at = c.grid<int64_t>(1, kExperts);
  const auto x = c.grid<float>(kBucket, form.dim);
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto slot_of = c.grid<int32_t>(1, kExperts);
  const auto live = c.count_grid();
  const auto inputs = c.grid<float>(kBucket * kUsed, std::max(form.dim, form.ffn));
  const auto hidden = c.grid<float>(kBucket * kUsed, form.ffn);
  const auto groups = c.packed<int32_t>(1, device::expert_group_ints(kBucket * kUsed, kExperts));
  const auto y = c.grid<float>(kBucket * kUsed, form.dim);
  const auto weights = c.grid<float>(kBucket, kUsed);
  const auto sum = c.grid<float>(kBucket, form.dim);
  c.fill = [=](Random& random) {
    weights->fill_normal(random);
    sum->fill_normal(random);
    for (int64_t s = 0; s < kSlots; s++) {
      bytes.fill(slots->row(s), random);
      offsets->at(0, s) = s * stride;
    }
    x->fill_normal(random, 0.3);
    fill_routing(*ids, *slot_of, random);
    live->at(0, 0) = kLive;
    if (!form.linked) return;
    bytes.fill(linked->row(0) + 64, random);
    linked_at->set_row(0, std::vector<int64_t>(kExperts, 0));
    linked_at->at(0, kLinkedExpert) = reinterpret_cast<int64_t>(linked->row(0) + 64);
    slot_of->at(0, kLinkedExpert) = device::kLinkedPlace;
  };
  c.enqueue = [=](device::Stream& s) {
    device::ExpertSlots places{slots->memory(), *offsets};
    if (form.linked) {
      places.linked = *memories;
      places.linked_at = *linked_at;
    }
    device::ExpertFfn op{.x = *x, .ids = *ids, .live = *live, .slot_of = *slot_of,
                         .slots = places, .blob = bytes.blob(), .formula = form.formula,
                         .inputs = *inputs, .hidden = *hidden, .groups = *groups, .y = *y};
    if (form.summed) {
      op.weights = *weights;
      op.sum = *sum;
    }
    s.enqueue(op);
  };
  c.expect = [=] {
    std::vector<Want> wants;
    const double roundings = 16 + static_cast<double>(form.dim + form.ffn) / 4;
    std::vector<Sum> sums;
    for (int64_t i = 0; i < kLive * form.dim; i++) {
      const float own = sum->at(i / form.dim, i % form.dim);
      sums.push_back({own, std::abs(double{own})});
    }
    for (int64_t p = 0; p < kLive * kUsed; p++) {
      const int32_t slot = slot_of->at(0, ids->at(p / kUsed, p % kUsed));
      if (slot < 0) continue;
      const uint8_t* at = slot == device::kLinkedPlace ? linked->row(0) + 64 : slots->row(slot);
      const std::vector<Sum> out = bytes.output(at, x->row(p / kUsed));
      const double weight = weights->at(p / kUsed, p % kUsed);
      for (int64_t i = 0; i < form.dim; i++) {
        const Sum& of_pair = out[static_cast<size_t>(i)];
        Sum& total = sums[static_cast<size_t>(p / kUsed * form.dim + i)];
        total = {total.value + weight * of_pair.value, total.size + std::abs(weight) * of_pair.size};
        if (!form.summed) wants.push_back({y->row(p) + i, of_pair.value, roundings * kRounding * of_pair.size});
      }
    }
    for (int64_t i = 0; form.summed && i < kLive * form.dim; i++) {
      const Sum& total = sums[static_cast<size_t>(i)];
      wants.push_back({sum->row(i / form.dim) + i % form.dim, total.value, (roundings + 8) * kRounding * total.size});
    }
    for (int64_t p = 0; form.summed && p < kBucket * kUsed; p++) want_scratch(wants, y->row(p), form.dim);
    for (int64_t p = 0; p < kBucket * kUsed; p++) {
      want_scratch(wants, inputs->row(p), inputs->cols());
      want_scratch(wants, hidden->row(p), form.ffn);
    }
    want_scratch(wants, groups->row(0), groups->cols());
    return wants;
  };
}

// Rows of pairs that were computed elsewhere stand in memory of their own.
void combine_with_arrivals(Device& device, OpCases& cases) {
  OpCase& c = add_case<device::Combine>(device, cases, "_with_arrivals");
  constexpr int64_t kDim = 33;
  const auto rows = c.grid<float>(kBucket * kUsed, kDim);
  const auto arrived = c.grid<float>(kBucket * kUsed, kDim);
  const auto weights = c.grid<float>(kBucket, kUsed);
  const auto ids = c.grid<int32_t>(kBucket, kUsed);
  const auto slot_of = c.grid<int32_t>(1, kExperts);
  const auto live = c.count_grid();
  const auto x = c.grid<float>(kBucket, kDim);
  c.fill = [=](Random& random) {
    fill_routing(*ids, *slot_of, random);
    weights->fill_normal(random);
    x->fill_normal(random);
    live->at(0, 0) = kLive;
    for (int64_t p = 0; p < kBucket * kUsed; p++) {
      // Neither may be read where the other is wanted.
      const bool here = p < kLive * kUsed && kSlotOf[ids->at(p / kUsed, p % kUsed)] >= 0;
      for (int64_t i = 0; i < kDim; i++) {
        const auto value = static_cast<float>(random.normal());
        rows->at(p, i) = here ? value : NAN;
        arrived->at(p, i) = here ? NAN : value;
      }
    }
  };
  c.enqueue = [=](device::Stream& s) {
    s.enqueue(device::Combine{.rows = *rows, .weights = *weights, .ids = *ids, .live = *live, .x = *x,
                              .arrived = *arrived, .slot_of = *slot_of});
  };
  c.expect = [=] {
    std::vector<Want> wants;
    for (int64_t r = 0; r < kLive; r++) {
      for (int64_t i = 0; i < kDim; i++) {
        float total = 0;
        for (int64_t j = 0; j < kUsed; j++) {
          const Grid<float>& from = kSlotOf[ids->at(r, j)] >= 0 ? *rows : *arrived;
          total += weights->at(r, j) * from.at(r * kUsed + j, i);
        }
        wants.push_back({&x->at(r, i), double{x->at(r, i) + total}});
      }
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
  expert_ffn(device, cases, {"_sum", Type::Q8_0, 64, 96, true, {}, false, true});
  combine_with_arrivals(device, cases);
}

void add_linked_cases(Device& device, OpCases& cases) {
  using quant::Type;
  expert_ffn(device, cases, {"_linked", Type::F32, 36, 70, false, {}, true});
  expert_ffn(device, cases, {"_linked_q4_k", Type::Q4_K, 256, 256, true, {}, true});
  add_fetch_cases(device, cases);
}

}  // namespace strata::test
