// A fault of the device: every stream reports it, with the operation that it is suspected of, and nothing hangs.
#include <atomic>
#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/sim_support.h"
#include "gpu/support.h"

namespace strata::test {
namespace {

using device::HostTask;

// Memory of the device at an address that nothing is mapped at.
class Nowhere final : public device::Memory {
 public:
  explicit Nowhere(device::Device* device)
      : Memory(device, device::MemoryKind::kDevice, "nowhere", reinterpret_cast<std::byte*>(uintptr_t{1} << 20), 64) {}
};

void say(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ok() ? "no error" : status.error().message.c_str());
}

// The context of the process is gone afterwards: it happens in a process of its own, which ends well if nothing hangs.
[[noreturn]] void fault(bool in_graph) {
  const auto device = open_gpu();
  const auto stream = device->make_stream("faulty"), other = device->make_stream("other");
  const Adder adder(*device);
  const Number x(*device, 1), y(*device, 2);
  Nowhere nowhere(device.get());
  int runs = 0;
  const HostTask count = task_of("count", [&]() -> Status { runs++; return {}; });
  const auto enqueue = [&](device::Stream& s) {
    adder.enqueue(s, x.view(), y.view());
    adder.enqueue(s, x.view(), device::view_of<float>(nowhere, 1, 1));
    for (int i = 0; i < 100; i++) s.wait(s.host_task(count));
  };
  std::unique_ptr<device::Graph> graph;
  if (in_graph) {
    graph = device->capture(enqueue).value();
    graph->replay(*stream);
  } else {
    enqueue(*stream);
  }
  say(stream->synchronize());
  stream->reset();
  say(stream->synchronize());
  say(other->synchronize());
  other->wait(other->host_task(count));
  say(device->allocate(16, "after the fault").ok() ? Status() : Status(Error{ErrorCode::kInternal, "refused"}));
  std::fprintf(stderr, "%d tasks ran\n", runs);
  std::_Exit(0);
}

// The second part of a split faults in the third chunk of a prompt: another kernel does it, in the same context.
[[noreturn]] void fault_in_prompt() {
  const GoldenModel golden = load_demo_golden();
  const auto model = open_golden(golden);
  engine::EngineConfig config = test_config();
  config.device = format("cuda:0,{}", second_gpu());
  config.vram_budget = "4,4";
  config.layer_split = {3, 5};
  config.expert_cache = 64;
  config.cache_min_slots = 1;
  config.chunk = 32;
  config.stream_rows = 8;
  const auto device = device::cuda::open_gpu(second_gpu(), {}).value();
  const auto stream = device->make_stream("faulty");
  const Adder adder(*device);
  const Number x(*device, 1);
  Nowhere nowhere(device.get());
  Stats stats;
  const auto engine = engine::Engine::open(*model, config, stats).value();
  const auto read = [&]() -> Status {
    ASSIGN_OR_RETURN(model::SequenceState state, engine->make_sequence());
    return engine->prefill(state, std::vector<int32_t>(300, 7), {});
  };
  say(read());
  std::atomic<int> asked = 0;
  engine->set_interrupt([&] {
    if (++asked == 20) adder.enqueue(*stream, x.view(), device::view_of<float>(nowhere, 1, 1));
    return false;
  });
  say(read());
  std::fprintf(stderr, "%d blocks in use\n", static_cast<int>(stats.get(Counter::kKvBlocksUsed)));
  say(read());
  std::_Exit(0);
}

class GpuFaultDeathTest : public testing::Test {
 protected:
  GpuFaultDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(GpuFaultDeathTest, EveryStreamReportsItAndTheSuspect) {
  EXPECT_EXIT(fault(false), testing::ExitedWithCode(0),
              "cuda:0/faulty: .*, first suspect add_gated queued at .*support.h:[0-9]+; .*started again\n"
              "cuda:0/faulty: .*\ncuda:0/faulty: .*\nrefused\n0 tasks ran");
}

TEST_F(GpuFaultDeathTest, OfAGraphItNamesTheReplay) {
  EXPECT_EXIT(fault(true), testing::ExitedWithCode(0), "a replayed graph .*--graph off.*started again");
}

// All parts stop, and what they had is given back; nothing can be computed there before the program is started again.
TEST_F(GpuFaultDeathTest, InAPromptOfASplitItEndsAllParts) {
  EXPECT_EXIT(fault_in_prompt(), testing::ExitedWithCode(0),
              "no error\n.*started again\n.*0 blocks in use\n.*started again\n");
}

}  // namespace
}  // namespace strata::test
