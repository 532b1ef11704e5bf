// Attention over prompts and answers in one step. Goal: a row's bits are its own, whatever the number of threads, how a
// prompt is cut into steps, and what else is in the step; so that the ways in which the host shares the work out (tiles
// of rows, spans of the context) cannot be told from the result.
#include <gtest/gtest.h>

#include "device/op_case.h"
#include "device/paged.h"

namespace strata::test {
namespace {

using device::host::HostDevice;
using kernels::KvType;

struct Form {
  const char* name;
  PagedShape shape;
  int n_heads;
  int64_t window = 0;
  bool sinks = false, gated = false;
};

// Rows of a step: n of a slot from a position on.
struct Rows {
  int32_t slot, position, n;
};

class Step {
 public:
  Step(int threads, const Form& form) : form_(form), device_(host_options(threads)) {
    Random random(5);
    paged_.fill_map(random);
    paged_.fill_cache(random);
    if (form.sinks) sinks_->fill_normal(random, 2);
    device::Attention op{.q = q_->view(),
                         .sinks = {},
                         .rows = paged_.row_map(),
                         .kv = paged_.kv(),
                         .y = y_->view(),
                         .n_heads = form.n_heads,
                         .q_head_stride = stride_,
                         .gated = form.gated,
                         .window = form.window,
                         .scale = 0.3f};
    if (form.sinks) op.sinks = sinks_->view();
    auto graph = device_.capture([&](device::Stream& s) { s.enqueue(op); });
    EXPECT_TRUE(graph.ok());
    graph_ = std::move(graph).value();
  }

  // The outputs of the rows; a row's query follows from its slot and position.
  std::vector<float> run(const std::vector<Rows>& runs) {
    int64_t live = 0;
    for (const Rows& rows : runs) {
      for (int32_t i = 0; i < rows.n; i++, live++) {
        paged_.slots->at(0, live) = rows.slot;
        paged_.positions->at(0, live) = rows.position + i;
        Random random(static_cast<uint64_t>(rows.slot * 10'000 + rows.position + i));
        for (int64_t c = 0; c < q_->cols(); c++) q_->at(live, c) = static_cast<float>(random.normal());
      }
    }
    paged_.live->at(0, 0) = static_cast<int32_t>(live);
    const auto stream = device_.make_stream("test");
    graph_->replay(*stream);
    EXPECT_TRUE(stream->synchronize().ok());
    std::vector<float> y;
    for (int64_t r = 0; r < live; r++) y.insert(y.end(), y_->row(r), y_->row(r) + y_->cols());
    return y;
  }

 private:
  Form form_;
  HostDevice device_;
  OpCase case_{device_, "", 0};
  int stride_ = form_.shape.key_dim + (form_.gated ? form_.shape.value_dim : 0);
  Paged paged_{case_, form_.shape};
  std::shared_ptr<Grid<float>> grid(int64_t rows, int64_t cols) { return case_.grid<float>(rows, cols); }
  std::shared_ptr<Grid<float>> q_ = grid(form_.shape.bucket, int64_t{form_.n_heads} * stride_);
  std::shared_ptr<Grid<float>> sinks_ = grid(1, form_.n_heads);
  std::shared_ptr<Grid<float>> y_ = grid(form_.shape.bucket, int64_t{form_.n_heads} * form_.shape.value_dim);
  std::unique_ptr<device::Graph> graph_;
};

constexpr PagedShape shape_of(KvType type, int n_kv_heads, int key_dim, int value_dim) {
  return {.n_kv_heads = n_kv_heads, .key_dim = key_dim, .value_dim = value_dim, .type = type, .block_tokens = 32,
          .bucket = 160, .live = 1, .max_position = 1400};
}

const Form kForms[] = {
    {"f32", shape_of(KvType::kF32, 2, 32, 32), 8},
    {"f16_window_sinks", shape_of(KvType::kF16, 2, 20, 36), 6, 70, true},
    {"bf16_gated", shape_of(KvType::kBf16, 1, 64, 64), 12, 0, false, true},
    {"q8_0_wide_window", shape_of(KvType::kQ8_0, 4, 32, 64), 4, 700, true},
};

// A long prompt that ends an early span and begins the next, an answer far along, a short prompt, an answer.
const std::vector<Rows> kMixed = {{0, 450, 130}, {1, 1399, 1}, {2, 0, 20}, {1, 3, 1}};

class AttentionOp : public testing::TestWithParam<Form> {};

TEST_P(AttentionOp, BitsOfARowAreItsOwn) {
  const std::vector<float> whole = Step(1, GetParam()).run(kMixed);
  for (const int threads : {1, 2, 3, 8}) {
    Step step(threads, GetParam());
    EXPECT_EQ(std::memcmp(step.run(kMixed).data(), whole.data(), whole.size() * sizeof(float)), 0)
        << threads << " threads";
    for (const int32_t most : {1, 7, 64}) {
      std::vector<float> cut;
      for (const Rows& rows : kMixed) {
        for (int32_t at = 0; at < rows.n; at += most) {
          const std::vector<float> y = step.run({{rows.slot, rows.position + at, std::min(most, rows.n - at)}});
          cut.insert(cut.end(), y.begin(), y.end());
        }
      }
      ASSERT_EQ(cut.size(), whole.size());
      EXPECT_EQ(std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)), 0)
          << threads << " threads, at most " << most << " rows";
    }
  }
}

// Few answers in a step, so that each is shared out by spans.
TEST_P(AttentionOp, BitsOfAnswersDoNotDependOnThreads) {
  const std::vector<Rows> answers = {{0, 1400, 1}, {1, 511, 1}, {2, 1024, 1}};
  const std::vector<float> one = Step(1, GetParam()).run(answers);
  for (const int threads : {2, 3, 5, 8}) {
    Step step(threads, GetParam());
    EXPECT_EQ(std::memcmp(step.run(answers).data(), one.data(), one.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, AttentionOp, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace strata::test
