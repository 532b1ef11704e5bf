// A step of one MoE layer: routing, inputs and outputs in fixed buffers, run through a Dispatch, beside the same in
// doubles.
#pragma once

#include <cmath>
#include <vector>

#include "experts/dispatch.h"
#include "experts/sources/arena.h"
#include "experts/support.h"

namespace strata::test {

// ids [rows][k] and weights [rows][k] of a step.
struct Routing {
  int64_t rows = 0;
  int64_t k = 0;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

// Distinct experts for each row.
Routing random_routing(int64_t rows, int64_t k, int64_t n_experts, Random& random);

struct RigOptions {
  int64_t max_rows = 8;
  int64_t k = 2;
  int threads = 1;
  experts::ExpertFormula formula = {};
};

class DispatchRig {
 public:
  // `source` null: an arena of the model's experts.
  DispatchRig(const ExpertModel& model, const RigOptions& options, experts::ExpertSource* source = nullptr);

  // y += experts(x) for x [rows][dim]; the values of y afterwards. Fails the test when the stream fails.
  std::vector<float> run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  // The same with the stream's answer; the stream is ready for the next run afterwards.
  Status try_run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  std::vector<float> result(int64_t rows) const;
  // Tells the source what the layer will, or may, ask for.
  void hint(experts::HintKind kind, const Routing& routing);

  experts::ExpertSource& source() { return *source_; }
  device::host::HostDevice& device() { return device_; }
  Stats stats;

 private:
  const ExpertModel& model_;
  RigOptions options_;
  device::host::HostDevice device_;
  std::unique_ptr<experts::ExpertSource> arena_;
  experts::ExpertSource* source_;
  Grid<int32_t> ids_, live_;
  Grid<float> weights_, x_, y_;
  std::unique_ptr<experts::Dispatch> dispatch_;
  std::unique_ptr<device::Graph> graph_;
  std::unique_ptr<device::Stream> stream_;
};

// What the step gives, in doubles, from the bytes that `fill` puts into the model's files; with the sizes of the terms
// of each value, to which rounding errors are relative.
struct Reference {
  std::vector<double> values;  // [rows][dim]
  std::vector<double> sizes;
};
Reference reference_step(const ExpertSpec& spec, const FillPart& fill, const experts::ExpertFormula& formula,
                         const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);

std::vector<float> normals(Random& random, int64_t n);

}  // namespace strata::test
