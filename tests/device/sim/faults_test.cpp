// Failures on demand: every point that a program passes fails once, and each time the program ends with that error,
// gives everything back, and is right when it runs again on the same machine.
#include "device/sim/programs.h"

namespace strata::test {
namespace {

using device::sim::fault_point_name;
using device::sim::Faults;

TEST(Faults, TheNthPointFailsOnce) {
  Faults faults;
  faults.fail_at(3);
  EXPECT_FALSE(faults.visit(FaultPoint::kCopy, "a").has_value());
  EXPECT_FALSE(faults.visit(FaultPoint::kOperation, "b").has_value());
  const auto error = faults.visit(FaultPoint::kCopy, "c");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, ErrorCode::kInternal);
  EXPECT_EQ(error->message, "c: copy number 2 fails by order of the fault injector");
  for (int i = 0; i < 5; i++) EXPECT_FALSE(faults.visit(FaultPoint::kCopy, "d").has_value());
  EXPECT_EQ(faults.visited(), 8u);
  EXPECT_EQ(faults.visited(FaultPoint::kCopy), 7u);
  EXPECT_EQ(faults.visited(FaultPoint::kRecord), 0u);
  EXPECT_EQ(faults.failed(), 1u);
}

TEST(Faults, OneKindIsCountedAlone) {
  Faults faults;
  faults.fail_at(FaultPoint::kAllocation, 2);
  EXPECT_FALSE(faults.visit(FaultPoint::kCopy, "a").has_value());
  EXPECT_FALSE(faults.visit(FaultPoint::kAllocation, "b").has_value());
  EXPECT_FALSE(faults.visit(FaultPoint::kTask, "c").has_value());
  const auto error = faults.visit(FaultPoint::kAllocation, "d");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, ErrorCode::kNoMemory);
  faults.fail_at(1);
  faults.clear();
  EXPECT_FALSE(faults.visit(FaultPoint::kAllocation, "e").has_value());
}

TEST(Faults, ASpecCanOrderOne) {
  const auto machine = machine_of("sim:1MiB/fail=2");
  EXPECT_TRUE(machine->device(0).allocate(8, "first").ok());
  EXPECT_FALSE(machine->device(0).allocate(8, "second").ok());
  EXPECT_TRUE(machine->device(0).allocate(8, "third").ok());
}

void expect_clean(SimMachine& machine) {
  EXPECT_EQ(machine.device(0).used_bytes(), 0u);
  EXPECT_EQ(machine.device(1).used_bytes(), 0u);
  EXPECT_EQ(machine.host_bytes(), 0u);
  EXPECT_TRUE(machine.races().empty()) << machine.races()[0];
}

// The queued work of every program, point by point.
class FaultSweep : public testing::TestWithParam<FaultPoint> {};

TEST_P(FaultSweep, EndsWithTheErrorAndIsRightAfterwards) {
  uint64_t n_failed = 0;
  for (const Program& program : programs()) {
    const auto machine = machine_of(program_spec(4));
    uint64_t n = 1;
    for (;; n++) {
      machine->faults().fail_at(GetParam(), n);
      const uint64_t failed_before = machine->faults().failed();
      const Outcome outcome = program.run(*machine, Flaw::kNone);
      machine->faults().clear();
      expect_clean(*machine);
      if (machine->faults().failed() == failed_before) {
        EXPECT_TRUE(outcome.status.ok() && outcome.right) << program.name;
        break;
      }
      EXPECT_FALSE(outcome.status.ok() && outcome.right) << program.name << ", point " << n;
      const Outcome again = program.run(*machine, Flaw::kNone);
      EXPECT_TRUE(again.status.ok() && again.right) << program.name << " after point " << n;
      if (HasFailure()) return;
    }
    n_failed += n - 1;
  }
  EXPECT_GE(n_failed, 4u) << "each program goes through four rounds";
}

INSTANTIATE_TEST_SUITE_P(Points, FaultSweep,
                         testing::Values(FaultPoint::kOperation, FaultPoint::kCopy, FaultPoint::kRecord,
                                         FaultPoint::kTask),
                         [](const auto& param) {
                           std::string name = fault_point_name(param.param);
                           std::erase(name, ' ');
                           return name;
                         });

// A part of an engine, small: memory, a graph, steps.
class Part {
 public:
  static Result<std::unique_ptr<Part>> create(SimDevice& device) {
    auto part = std::make_unique<Part>();
    ASSIGN_OR_RETURN(part->input_, device.allocate_host(64, MemoryKind::kPinned, "input"));
    ASSIGN_OR_RETURN(part->x_, device.allocate(64, "x"));
    ASSIGN_OR_RETURN(part->output_, device.allocate_host(64, MemoryKind::kPinned, "output"));
    part->stream_ = device.make_stream("compute");
    ASSIGN_OR_RETURN(part->graph_, device.capture([&](Stream& s) {
      s.wait(s.host_task(part->task_));
      s.copy(*part->x_, 0, *part->input_, 0, 64);
      s.copy(*part->output_, 0, *part->x_, 0, 64);
    }));
    return part;
  }
  Result<int> step(int value) {
    value_ = value;
    graph_->replay(*stream_);
    if (Status status = stream_->synchronize(); !status.ok()) {
      stream_->reset();
      return std::move(status).error();
    }
    return first_byte(*output_);
  }

 private:
  int value_ = 0;
  HostTask task_ = task_of("fill", [this]() -> Status {
    set_bytes(*input_, value_);
    return {};
  });
  std::unique_ptr<HostBuffer> input_, output_;
  std::unique_ptr<Buffer> x_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<device::Graph> graph_;
};

TEST(FaultSweepOfAPart, AnErrorForItsRequestAndTheNextOneRight) {
  const auto machine = machine_of(program_spec(4));
  uint64_t refused_creations = 0, failed_steps = 0;
  for (uint64_t n = 1;; n++) {
    machine->faults().fail_at(n);
    auto part = Part::create(machine->device(0));
    if (!part.ok()) {
      refused_creations++;
      EXPECT_EQ(part.error().code, ErrorCode::kNoMemory);
      expect_clean(*machine);
      continue;
    }
    const Result<int> first = (*part)->step(7);
    machine->faults().clear();
    const Result<int> next = (*part)->step(8);
    ASSERT_TRUE(next.ok()) << next.error().message;
    EXPECT_EQ(next.value(), 8);
    part.value().reset();
    expect_clean(*machine);
    if (first.ok()) {
      EXPECT_EQ(first.value(), 7);
      break;
    }
    failed_steps++;
  }
  EXPECT_EQ(refused_creations, 4u) << "three buffers and a workspace";
  EXPECT_EQ(failed_steps, 3u) << "a task and two copies";
}

}  // namespace
}  // namespace strata::test
