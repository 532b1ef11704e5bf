// Steps whose rows go from a device to another one. The test of the hand-off and the control that proves it bites share
// it.
#pragma once

#include <string>
#include <vector>

#include "device/sim/machine.h"
#include "engine/hand_off.h"

namespace strata::test {

struct HandOffRun {
  std::vector<float> sent, arrived;  // the first value of each step
  std::string error;                 // of a stream
  uint64_t races = 0;                // on simulated devices
};

// Queues twelve steps, the sender's one ahead of the receiver's, without waiting between them.
inline HandOffRun hand_over(device::Device& a, device::Device& b) {
  constexpr int64_t kRows = 4, kDim = 8;
  constexpr size_t kSteps = 12;
  HandOffRun run;
  const bool peers = a.reaches(b);
  const size_t bytes = kRows * kDim * sizeof(float);
  const auto from = a.make_stream("from"), to = b.make_stream("to");
  const auto hidden_a = a.allocate(bytes, "hidden").value(), hidden_b = b.allocate(bytes, "hidden").value();
  const auto inputs = a.allocate_host(kSteps * bytes, device::MemoryKind::kPinned, "inputs").value();
  const auto outputs = b.allocate_host(kSteps * bytes, device::MemoryKind::kPinned, "outputs").value();
  {
    const auto all = inputs->write<float>(0, kSteps * kRows * kDim);
    for (size_t i = 0; i < all.span().size(); i++) all[i] = static_cast<float>(i);
  }
  const auto hand_off =
      engine::HandOff::create({.from = *from, .to = *to, .max_rows = kRows, .dim = kDim, .peers = peers}).value();
  const auto send = [&](size_t step) {
    from->copy(*hidden_a, 0, *inputs, step * bytes, bytes);
    hand_off->send(device::view_of<float>(*hidden_a, kRows, kDim));
  };
  send(0);
  for (size_t step = 0; step < kSteps; step++) {
    hand_off->receive(device::view_of<float>(*hidden_b, kRows, kDim));
    if (step + 1 < kSteps) send(step + 1);
    to->copy(*outputs, step * bytes, *hidden_b, 0, bytes);
  }
  for (device::Stream* stream : {from.get(), to.get()}) {
    const Status status = stream->synchronize();
    if (!status.ok()) run.error = status.error().message;
  }
  for (size_t step = 0; step < kSteps; step++) {
    run.sent.push_back(inputs->read<float>(step * bytes, 1)[0]);
    run.arrived.push_back(outputs->read<float>(step * bytes, 1)[0]);
  }
  return run;
}

inline HandOffRun hand_over(const std::string& spec) {
  const auto machine = device::sim::make_sim(spec).value();
  HandOffRun run = hand_over(machine->device(0), machine->device(1));
  run.races = machine->n_races();
  return run;
}

}  // namespace strata::test
