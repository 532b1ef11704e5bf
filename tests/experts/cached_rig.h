// Steps of MoE layers on a device with a cache of experts: inputs and outputs in fixed buffers, run as a dispatch runs
// them: from graphs, enqueued anew, or with the missing experts streamed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experts/cache.h"
#include "experts/dispatch_rig.h"
#include "experts/streamed_dispatch.h"
#include "experts/test_devices.h"

namespace strata::test {

struct CachedOptions {
  Where where = Where::kHost;
  int64_t max_rows = 8;
  int64_t k = 2;
  int64_t slots = 0;  // 0: no cache
  bool graphs = true;
  int threads = 1;
  experts::ExpertFormula formula = {};
  int64_t ring_places = 0;  // what the ring has room for; 0: no ring
  // Of m missing experts, how many the device reads out of the arena, which is page-locked then; empty: none.
  std::vector<int32_t> link_shares = {};
  bool guesses = false;     // that the next layer is routed like this one
  bool borrows = false;     // the ring lies in slots that the cache lends for each step that streams
  std::string sim_spec = "sim:64MiB/seed=5";
};

// A step goes through all layers of the model, each with the same inputs, into one y.
class CachedRig {
 public:
  // `source` null: an arena of the model's experts.
  CachedRig(const ExpertModel& model, const CachedOptions& options, experts::ExpertSource* source = nullptr);
  // The checker has found nothing, unless the test took that upon itself.
  ~CachedRig();

  experts::DispatchLimits limits() const;

  // y += experts(x) layer after layer; the values of y afterwards. Fails the test when the step fails.
  std::vector<float> run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  std::vector<float> stream(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  // The same with the answer of the streams; they are ready for the next step afterwards.
  Status try_run(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  Status try_stream(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  std::vector<float> result(int64_t rows);

  // The parts of a step.
  void set_inputs(const Routing& routing, const std::vector<float>& x, const std::vector<float>& y);
  void queue(int64_t rows);
  void queue_streamed(int64_t rows);
  Status finish();

  device::Device& device() { return devices_.device(); }
  device::sim::SimMachine& machine() { return *devices_.machine(); }
  device::Stream& main_stream() { return *stream_; }
  const experts::RingPlan& ring() const { return ring_; }
  std::vector<std::string> races() { return devices_.races(); }
  void expect_races() { races_expected_ = true; }

 private:
  struct Bucket {
    int64_t rows;
    std::unique_ptr<device::Graph> graph;
  };

  void make_cache();
  std::unique_ptr<device::Buffer> buffer(int64_t n);
  void enqueue(experts::Dispatch& dispatch, device::Stream& stream, int64_t rows);
  void add_bucket(int64_t rows);

  const ExpertModel& model_;
  CachedOptions options_;
  TestDevice devices_;

 public:
  Stats stats;

 private:
  std::unique_ptr<experts::ArenaSource> arena_;
  experts::ExpertSource* source_;
  std::unique_ptr<device::Stream> stream_;

 public:
  std::unique_ptr<experts::ExpertCache> cache;

 private:
  experts::RingPlan ring_;
  std::unique_ptr<device::Buffer> ring_memory_;  // null if it is borrowed
  std::unique_ptr<experts::Dispatch> dispatch_;
  std::unique_ptr<device::Buffer> ids_, weights_, x_, y_, live_;
  std::vector<Bucket> buckets_;
  bool races_expected_ = false;
};

struct CachedInputs {
  CachedInputs(const ExpertSpec& spec, int64_t rows, int64_t k, uint64_t seed);

  Routing routing;
  std::vector<float> x, y;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace strata::test
