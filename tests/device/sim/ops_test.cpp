// A simulated device computes what the host does, bit for bit: the same operations on the same numbers on both.
#include "base/random.h"
#include "device/sim/support.h"
#include "device/support.h"

namespace strata::test {
namespace {

constexpr int64_t kRows = 7, kDim = 64, kFfn = 96;

// The inputs lie one after another in host memory of `device`; the operations of a small feed-forward network run on
// them, enqueued directly or replayed from a graph. Returns the bytes that they leave.
std::vector<std::byte> run(device::Device& device, bool graph) {
  using device::view_of;
  const size_t x_bytes = kRows * kDim * 4, w_bytes = kFfn * kDim * 4, hidden_bytes = kRows * kFfn * 4;
  const size_t total = 4 + kDim * 4 + x_bytes + 3 * w_bytes;
  const auto host = device.allocate_host(total, MemoryKind::kPinned, "inputs").value();
  {
    const auto guard = host->write<float>(0, total / 4);
    Random random(17);
    for (float& f : guard.span()) f = static_cast<float>(random.normal());
    store_le<int32_t>(guard.span().data(), kRows - 2);
  }
  const auto inputs = device.allocate(total, "inputs").value();
  const auto outputs = device.allocate(x_bytes + 2 * hidden_bytes, "outputs").value();
  const auto back = device.allocate_host(x_bytes, MemoryKind::kPinned, "back").value();
  const auto stream = device.make_stream("compute");
  const device::In<int32_t> live = view_of<int32_t>(*inputs, 1, 1);
  const auto gain = view_of<float>(*inputs, 1, kDim, 4), x = view_of<float>(*inputs, kRows, kDim, 4 + kDim * 4);
  const auto normed = view_of<float>(*outputs, kRows, kDim), gate = view_of<float>(*outputs, kRows, kFfn, x_bytes),
             up = view_of<float>(*outputs, kRows, kFfn, x_bytes + hidden_bytes);
  const auto product = [&](int matrix, int64_t out, int64_t in, const device::View<float>& from,
                           const device::View<float>& to) {
    device::MatMul op{};
    op.w = {inputs.get(),
            4 + kDim * 4 + x_bytes + static_cast<size_t>(matrix) * w_bytes,
            quant::Type::F32,
            out,
            in,
            static_cast<size_t>(in) * 4};
    op.x = from;
    op.live = live;
    op.y = to;
    op.accumulate = matrix == 2;
    return op;
  };
  const auto enqueue = [&](Stream& s) {
    s.enqueue(device::RmsNorm{.x = x, .gain = gain, .live = live, .y = normed, .eps = 1e-6f});
    s.enqueue(product(0, kFfn, kDim, normed, gate));
    s.enqueue(product(1, kFfn, kDim, normed, up));
    s.enqueue(device::SiluMul{.gate = gate, .up = up, .live = live});
    s.enqueue(product(2, kDim, kFfn, gate, x));
  };
  const auto recorded = device.capture(enqueue).value();
  stream->copy(*inputs, 0, *host, 0, total);
  if (graph) {
    recorded->replay(*stream);
  } else {
    enqueue(*stream);
  }
  stream->copy(*back, 0, *inputs, 4 + kDim * 4, x_bytes);
  const Status status = stream->synchronize();
  EXPECT_TRUE(status.ok()) << status.error().message;
  const auto guard = back->read<std::byte>(0, x_bytes);
  return {guard.span().begin(), guard.span().end()};
}

TEST(SimOperations, GiveTheBitsOfTheHost) {
  device::host::HostDevice host(host_options(2));
  const std::vector<std::byte> expected = run(host, false);
  for (const int seed : {1, 2, 3}) {
    const auto machine = machine_of("sim:1MiB/seed=" + std::to_string(seed));
    EXPECT_EQ(run(machine->device(0), false), expected) << seed;
    EXPECT_EQ(run(machine->device(0), true), expected) << seed;
    EXPECT_TRUE(machine->health().ok());
  }
}

}  // namespace
}  // namespace strata::test
