// The convolution and the gated delta rule: both forms against the recurrence in double, and against each other.
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/ref/ref.h"
#include "support.h"

namespace strata::kernels {
namespace {

using namespace test;

enum class Gates { kRandom, kStrong, kMixed, kNone };

// Inputs of one head. Rows are further apart than they are wide, and gates of several heads interleave, as they do in
// a model's projections.
class Sequence {
 public:
  Sequence(int dk_, int dv_, int64_t n_, Gates gates, uint64_t seed) : dk(dk_), dv(dv_), n(n_) {
    Random random(seed);
    const auto tokens = static_cast<size_t>(n);
    v = normals(random, tokens * static_cast<size_t>(dv));
    for (size_t t = 0; t < tokens; t++) {
      append_unit(random, 1 / std::sqrt(dk), &q);
      append_unit(random, 1, &k);
      g.push_back(static_cast<float>(gate(random, gates, t)));
      beta.push_back(static_cast<float>(random.uniform()));
    }
    state = normals(random, static_cast<size_t>(dk) * static_cast<size_t>(dv));
  }

  struct Output {
    std::vector<float> o;      // [n][dv]
    std::vector<float> state;  // [dv][dk]
  };

  // Tokens [0, n) in calls of at most `per_call`.
  Output run(void (*kernel)(const DeltaArgs&), int64_t per_call) const {
    const int64_t qk_stride = dk + 5, v_stride = dv + 2, gate_stride = 3, o_stride = dv + 1;
    const Floats qs(spread(q, dk, qk_stride)), ks(spread(k, dk, qk_stride)), vs(spread(v, dv, v_stride));
    const Floats gs(spread(g, 1, gate_stride)), betas(spread(beta, 1, gate_stride));
    Floats o(static_cast<size_t>((n - 1) * o_stride + dv)), s(state);
    Floats scratch(static_cast<size_t>(delta_scratch(dk, dv)));
    for (int64_t t = 0; t < n; t += per_call) {
      kernel({.q = qs.data() + t * qk_stride, .k = ks.data() + t * qk_stride, .v = vs.data() + t * v_stride,
              .g = gs.data() + t * gate_stride, .beta = betas.data() + t * gate_stride, .o = o.data() + t * o_stride,
              .qk_stride = qk_stride, .v_stride = v_stride, .gate_stride = gate_stride, .o_stride = o_stride,
              .dk = dk, .dv = dv, .n_tokens = std::min(per_call, n - t), .state = s.data(),
              .scratch = scratch.data()});
    }
    EXPECT_TRUE(o.intact() && s.intact() && scratch.intact());
    Output out = {{}, s.values()};
    for (int64_t t = 0; t < n; t++) {
      const float* row = o.data() + t * o_stride;
      out.o.insert(out.o.end(), row, row + dv);
      uint32_t gap = 0xf7f7f7f7u;
      if (t + 1 < n) std::memcpy(&gap, row + dv, sizeof gap);
      EXPECT_EQ(gap, 0xf7f7f7f7u) << "written between the rows";
    }
    return out;
  }

  void reference(std::vector<double>* o, std::vector<double>* s) const {
    o->resize(v.size());
    s->assign(state.begin(), state.end());
    ref::delta({q.data(), k.data(), v.data(), g.data(), beta.data(), n, dk, dv}, s->data(), o->data());
  }

  int dk, dv;
  int64_t n;
  std::vector<float> q, k, v, g, beta, state;

 private:
  void append_unit(Random& random, double scale, std::vector<float>* out) const {
    const std::vector<float> x = normals(random, static_cast<size_t>(dk));
    std::vector<double> unit(x.size());
    ref::l2_norm(x.data(), unit.data(), dk, 1e-6, scale);
    out->insert(out->end(), unit.begin(), unit.end());
  }
  static double gate(Random& random, Gates gates, size_t t) {
    switch (gates) {
      case Gates::kRandom: return -std::exp(random.normal() * 2 - 3);
      case Gates::kStrong: return -5 - 30 * random.uniform();
      case Gates::kMixed: return t % 40 < 8 ? -90 * random.uniform() : -0.01 * random.uniform();
      case Gates::kNone: break;
    }
    return 0;
  }
  static std::vector<float> spread(const std::vector<float>& rows, int64_t width, int64_t stride) {
    const int64_t count = static_cast<int64_t>(rows.size()) / width;
    std::vector<float> out(static_cast<size_t>((count - 1) * stride + width), 1e30f);
    for (int64_t r = 0; r < count; r++) {
      std::copy(rows.begin() + r * width, rows.begin() + (r + 1) * width, out.begin() + r * stride);
    }
    return out;
  }
};

void expect_near(const Sequence::Output& got, const std::vector<double>& o, const std::vector<double>& s) {
  EXPECT_LE(relative_l2(got.o.data(), o), 1e-5);
  EXPECT_LE(relative_l2(got.state.data(), s), 1e-5);
}

TEST(Delta, BothFormsMatchTheRecurrenceOver4096Tokens) {
  for (const Gates gates : {Gates::kRandom, Gates::kStrong, Gates::kMixed, Gates::kNone}) {
    SCOPED_TRACE(static_cast<int>(gates));
    const Sequence sequence(128, 128, 4096, gates, 51);
    std::vector<double> o, s;
    sequence.reference(&o, &s);
    for_each_isa([&](const Kernels& k) {
      expect_near(sequence.run(k.delta_step, 4096), o, s);
      expect_near(sequence.run(k.delta_chunk, 4096), o, s);
      expect_near(sequence.run(k.delta_chunk, 500), o, s);
    });
  }
}

TEST(Delta, EveryTokenMatchesWhereStrongAndWeakDecaysMix) {
  // The norm over all tokens could hide a bad one.
  const Sequence sequence(64, 64, 512, Gates::kMixed, 52);
  std::vector<double> o, s;
  sequence.reference(&o, &s);
  for_each_isa([&](const Kernels& k) {
    for (const auto form : {k.delta_step, k.delta_chunk}) {
      const Sequence::Output got = sequence.run(form, 512);
      for (size_t t = 0; t < 512; t++) {
        const std::vector<double> want(o.begin() + static_cast<ptrdiff_t>(t) * 64,
                                       o.begin() + static_cast<ptrdiff_t>(t + 1) * 64);
        ASSERT_LE(relative_l2(got.o.data() + t * 64, want), 2e-5) << "token " << t;
      }
    }
  });
}

TEST(Delta, ShapesAndChunkBorders) {
  uint64_t seed = 500;
  const std::pair<int, int> shapes[] = {{1, 1}, {2, 2}, {3, 5}, {16, 33}, {40, 24}, {64, 96}, {100, 17}, {128, 128}};
  for (const auto& [dk, dv] : shapes) {
    for (const int64_t n : {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200}) {
      SCOPED_TRACE(testing::Message() << dk << " x " << dv << ", " << n << " tokens");
      const Sequence sequence(dk, dv, n, Gates::kRandom, seed++);
      std::vector<double> o, s;
      sequence.reference(&o, &s);
      for_each_isa([&](const Kernels& k) {
        expect_near(sequence.run(k.delta_step, n), o, s);
        expect_near(sequence.run(k.delta_chunk, n), o, s);
      });
    }
  }
}

TEST(Delta, ComparisonNoticesAChangedGate) {
  Sequence sequence(64, 64, 130, Gates::kRandom, 53);
  std::vector<double> o, s;
  sequence.reference(&o, &s);
  sequence.g[129] -= 0.001f;
  for_each_isa([&](const Kernels& k) {
    for (const auto form : {k.delta_step, k.delta_chunk}) {
      EXPECT_GT(relative_l2(sequence.run(form, 130).state.data(), s), 1e-5);
    }
  });
}

TEST(Delta, StepsGiveTheSameBitsInAnyCalls) {
  const Sequence sequence(48, 30, 50, Gates::kRandom, 54);
  for_each_isa([&](const Kernels& k) {
    const Sequence::Output together = sequence.run(k.delta_step, 50);
    const Sequence::Output apart = sequence.run(k.delta_step, 1);
    EXPECT_TRUE(same_bits(together.o, apart.o));
    EXPECT_TRUE(same_bits(together.state, apart.state));
  });
}

TEST(Delta, AGateOfMinusInfinityForgetsEverything) {
  Sequence sequence(32, 32, 70, Gates::kRandom, 55);
  sequence.g[3] = sequence.g[4] = sequence.g[65] = -std::numeric_limits<float>::infinity();
  std::vector<double> o, s;
  sequence.reference(&o, &s);
  for_each_isa([&](const Kernels& k) {
    expect_near(sequence.run(k.delta_step, 70), o, s);
    expect_near(sequence.run(k.delta_chunk, 70), o, s);
  });
}

TEST(Delta, TwoByTwoVector) {
  const std::vector<float> q = {1, 2, -1, 1, 3, 1}, k = {2, 1, 1, 1, 0, 1}, v = {1, -1, 0.5f, 2, -2, 1};
  const std::vector<float> b = {0.5f, -1, 2}, g = {-0.1f, -0.7f, -0.01f};
  const std::vector<double> want_o = {0.3521161, -0.3521161, -0.0691178, 0.0691178, -0.1794878, 0.3108338};
  const std::vector<double> want_state = {0.3126482, -1.7406387, 0.1580469, 0.9159507};  // [dv][dk]
  // Printed to 1e-7; each of three steps rounds about four times.
  const auto within = [](const std::vector<double>& want) {
    return [&want](size_t i) { return 1e-7 + 12 * kU * std::abs(want[i]); };
  };
  for_each_isa([&](const Kernels& kernels) {
    std::vector<float> qn(6), kn(6), beta(3, 1.0f);
    for (size_t t = 0; t < 3; t++) {
      kernels.l2_norm(q.data() + 2 * t, qn.data() + 2 * t, 2, 1e-6f, 1 / std::sqrt(2.0f));
      kernels.l2_norm(k.data() + 2 * t, kn.data() + 2 * t, 2, 1e-6f, 1);
    }
    kernels.sigmoid_mul(beta.data(), b.data(), 3);
    for (const auto form : {kernels.delta_step, kernels.delta_chunk}) {
      std::vector<float> o(6), state(4, 0.0f), scratch(static_cast<size_t>(delta_scratch(2, 2)));
      form({.q = qn.data(), .k = kn.data(), .v = v.data(), .g = g.data(), .beta = beta.data(), .o = o.data(),
            .qk_stride = 2, .v_stride = 2, .gate_stride = 1, .o_stride = 2, .dk = 2, .dv = 2, .n_tokens = 3,
            .state = state.data(), .scratch = scratch.data()});
      expect_close(o.data(), want_o, within(want_o));
      expect_close(state.data(), want_state, within(want_state));
    }
  });
}

TEST(ConvStep, MatchesTheDoubleFormOverAStream) {
  Random random(56);
  for (const int kernel : {1, 2, 3, 4, 5}) {
    for (const size_t channels : {1, 3, 4, 15, 16, 17, 50, 256}) {
      const auto taps = static_cast<size_t>(kernel);
      const auto count = static_cast<int64_t>(channels);
      const Floats w(normals(random, channels * taps));
      std::vector<std::vector<float>> stream;
      for (int t = 0; t < 6; t++) stream.push_back(normals(random, channels));
      for_each_isa([&](const Kernels& k) {
        std::vector<float> past(channels * (taps - 1), 0.0f);
        Floats state(past);
        for (const std::vector<float>& x : stream) {
          std::vector<double> want(channels);
          ref::conv_step(x.data(), w.data(), past.data(), want.data(), count, kernel);
          const Floats in(x);
          Floats y(channels), in_place(x), state_copy(state.values());
          k.conv_step(in.data(), w.data(), state.data(), y.data(), count, kernel);
          k.conv_step(in_place.data(), w.data(), state_copy.data(), in_place.data(), count, kernel);
          // The sum may cancel, so its error refers to the size of the terms (here below 40 with room to spare);
          // silu multiplies it by at most 1.1.
          expect_close(y.data(), want, [&](size_t i) { return 40 * 6 * kU + 5e-7 * std::abs(want[i]); });
          EXPECT_TRUE(same_bits(state.values(), past));
          EXPECT_TRUE(same_bits(in_place.values(), y.values()));
          EXPECT_TRUE(same_bits(state_copy.values(), past));
          EXPECT_TRUE(y.intact() && state.intact());
        }
      });
    }
  }
}

}  // namespace
}  // namespace strata::kernels
