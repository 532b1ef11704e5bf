#include "device/sim/programs.h"

#include <array>

namespace strata::test {
namespace {

constexpr size_t kBlobFloats = 64;
constexpr size_t kBlobBytes = kBlobFloats * sizeof(float);
constexpr int kRounds = 4;

// The first failure of several streams; makes them usable again.
Status end_of(std::initializer_list<Stream*> streams) {
  Status first;
  for (Stream* stream : streams) {
    Status status = stream->synchronize();
    if (!status.ok()) stream->reset();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

void set_floats(HostBuffer& buffer, float value) {
  const auto guard = buffer.write<float>(0, buffer.bytes() / sizeof(float));
  for (float& f : guard.span()) f = value;
}

device::View<float> floats(device::Memory& memory, int64_t rows = 1, size_t offset = 0) {
  return device::view_of<float>(memory, rows, kBlobFloats, offset);
}

// A sum of blobs in device memory, to which an operation adds.
class Sum {
 public:
  Sum(SimDevice& device, Stream& stream) : device_(device) {
    stream.fill_zero(*sum_, 0, kBlobBytes);
    set_int(*one_, 1);
    stream.copy(*live_, 0, *one_, 0, sizeof(int32_t));
  }
  void add(Stream& stream, const device::View<float>& blob) const {
    stream.enqueue(
        device::AddGated{.y = blob, .gate = {}, .live = device::view_of<int32_t>(*live_, 1, 1), .x = floats(*sum_)});
  }
  // The stream has done or drained its work.
  bool is(Stream& stream, float value) const {
    stream.copy(*back_, 0, *sum_, 0, kBlobBytes);
    if (!stream.synchronize().ok()) return false;
    for (const float f : back_->read<float>(0, kBlobFloats).span()) {
      if (f != value) return false;
    }
    return true;
  }
  device::Memory& memory() const { return *sum_; }
  static void set_int(HostBuffer& buffer, int32_t value) { buffer.write<int32_t>(0, 1)[0] = value; }

 private:
  SimDevice& device_;
  std::unique_ptr<Buffer> sum_ = device_.allocate(kBlobBytes, "sum").value();
  std::unique_ptr<Buffer> live_ = device_.allocate(sizeof(int32_t), "live").value();
  std::unique_ptr<HostBuffer> one_ = host_buffer(device_, sizeof(int32_t), MemoryKind::kPinned, "one");
  std::unique_ptr<HostBuffer> back_ = host_buffer(device_, kBlobBytes, MemoryKind::kPinned, "back");
};

// A stage buffer and what has to be over before it may be filled again.
struct Stage {
  std::unique_ptr<HostBuffer> buffer;
  std::array<std::unique_ptr<Event>, 2> left;  // by stream
};

// Blobs are read from a file into two stage buffers in turn, and copied from there to both devices.
Outcome stage_pool(SimMachine& machine, Flaw flaw) {
  const std::unique_ptr<Stream> streams[] = {machine.device(0).make_stream("copies"),
                                             machine.device(1).make_stream("copies")};
  const Sum sums[] = {Sum(machine.device(0), *streams[0]), Sum(machine.device(1), *streams[1])};
  std::unique_ptr<Buffer> slots[] = {machine.device(0).allocate(kBlobBytes, "slot").value(),
                                     machine.device(1).allocate(kBlobBytes, "slot").value()};
  std::array<Stage, 2> pool;
  for (Stage& stage : pool) {
    stage.buffer = host_buffer(machine.device(0), kBlobBytes, MemoryKind::kPinned, "stage buffer");
    for (auto& event : stage.left) event = machine.device(0).make_event();
  }
  float expected = 0;
  for (int round = 0; round < kRounds; round++) {
    Stage& stage = pool[static_cast<size_t>(round % 2)];
    if (flaw != Flaw::kRefillWithoutWaiting) {
      for (const auto& event : stage.left) event->synchronize();
    }
    auto read = stage.buffer->submit_read(0, kBlobBytes);
    for (size_t i = 0; i < kBlobFloats; i++)
      store_le<float>(stage.buffer->address() + i * sizeof(float), static_cast<float>(round));
    if (flaw != Flaw::kReadNotReaped) read.reap();
    for (size_t d = 0; d < 2; d++) {
      streams[d]->copy(*slots[d], 0, *stage.buffer, 0, kBlobBytes);
      streams[d]->record(*stage.left[flaw == Flaw::kOneEventPerBuffer ? 0 : d]);
      sums[d].add(*streams[d], floats(*slots[d]));
    }
    expected += static_cast<float>(round);
  }
  if (flaw == Flaw::kFenceLostAtClose) pool = {};
  Status status = end_of({streams[0].get(), streams[1].get()});
  const bool right = sums[0].is(*streams[0], expected) && sums[1].is(*streams[1], expected);
  return {std::move(status), right};
}

// A cache of two slots: blobs come over a copy stream, operations read them on a compute stream, a table on the device
// says which slot holds what.
Outcome cache(SimMachine& machine, Flaw flaw) {
  SimDevice& device = machine.device(0);
  const auto copies = device.make_stream("copies"), compute = device.make_stream("compute");
  const auto slots = device.allocate(2 * kBlobBytes, "slots").value();
  const auto table = device.allocate(2 * kBlobBytes, "table").value();
  const auto entries = host_buffer(device, kBlobBytes, MemoryKind::kPageable, "entries");
  const auto blob = host_buffer(device, kBlobBytes, MemoryKind::kPageable, "blob");
  const Sum sum(device, *compute), entry_sum(device, *compute);
  const std::unique_ptr<Event> arrived[] = {device.make_event(), device.make_event()};
  const std::unique_ptr<Event> used[] = {device.make_event(), device.make_event()};
  float expected = 0;
  for (int round = 0; round < kRounds; round++) {
    const auto slot = static_cast<size_t>(round % 2);
    set_floats(*blob, static_cast<float>(round + 1));
    if (flaw != Flaw::kEvictionBeforeReaders) copies->wait(*used[slot]);
    copies->copy(*slots, slot * kBlobBytes, *blob, 0, kBlobBytes);
    copies->record(*arrived[slot]);
    const bool waits = flaw != Flaw::kEventWaitDropped && flaw != Flaw::kTableEntryBeforeCopy;
    if (waits) compute->wait(*arrived[slot]);
    set_floats(*entries, static_cast<float>(slot));
    compute->copy(*table, slot * kBlobBytes, *entries, 0, kBlobBytes);
    entry_sum.add(*compute, floats(*table, 1, slot * kBlobBytes));
    sum.add(*compute, floats(*slots, 1, slot * kBlobBytes));
    if (flaw == Flaw::kTableEntryBeforeCopy) compute->wait(*arrived[slot]);
    compute->record(*used[slot]);
    expected += static_cast<float>(round + 1);
  }
  Status status = end_of({copies.get(), compute.get()});
  return {std::move(status), sum.is(*compute, expected) && entry_sum.is(*compute, kRounds / 2)};
}

// Slots of a cache are lent to a prompt, which works in them on its own stream, and are then filled again.
Outcome loan(SimMachine& machine, Flaw flaw) {
  SimDevice& device = machine.device(0);
  const auto decode = device.make_stream("decode"), prompt = device.make_stream("prompt");
  const auto slots = device.allocate(kBlobBytes, "lend region").value();
  const auto blob = host_buffer(device, kBlobBytes, MemoryKind::kPinned, "blob");
  const auto readers = device.make_event(), borrower = device.make_event();
  const Sum sum(device, *decode), prompt_sum(device, *prompt);
  set_floats(*blob, 3);
  for (int round = 0; round < kRounds; round++) {
    if (flaw != Flaw::kRestoreBeforeBorrower) decode->wait(*borrower);
    decode->copy(*slots, 0, *blob, 0, kBlobBytes);
    sum.add(*decode, floats(*slots));
    decode->record(*readers);
    if (flaw != Flaw::kLoanWithoutWaitingForReaders) prompt->wait(*readers);
    prompt->fill_zero(*slots, 0, kBlobBytes);
    prompt_sum.add(*prompt, floats(*slots));
    prompt->record(*borrower);
  }
  Status status = end_of({decode.get(), prompt.get()});
  return {std::move(status), sum.is(*decode, 3 * kRounds) && prompt_sum.is(*prompt, 0)};
}

// Rows go from one device to the next through a pinned buffer: the first part writes them out, the second takes them.
Outcome hand_off(SimMachine& machine, Flaw flaw) {
  const auto first = machine.device(0).make_stream("compute"), second = machine.device(1).make_stream("compute");
  const auto rows = machine.device(1).allocate(kBlobBytes, "rows").value();
  const auto between = host_buffer(machine.device(0), kBlobBytes, MemoryKind::kPinned, "hand-off buffer");
  const auto step = host_buffer(machine.device(0), kBlobBytes, MemoryKind::kPageable, "step inputs");
  const auto inputs = machine.device(0).allocate(kBlobBytes, "inputs").value();
  const auto written = machine.device(0).make_event(), taken = machine.device(1).make_event();
  const Sum sum(machine.device(0), *first), got(machine.device(1), *second);
  float expected = 0;
  for (int round = 1; round <= kRounds; round++) {
    set_floats(*step, static_cast<float>(round));
    first->copy(*inputs, 0, *step, 0, kBlobBytes);
    sum.add(*first, floats(*inputs));
    if (flaw != Flaw::kHandOffBufferReused) first->wait(*taken);
    first->copy(*between, 0, sum.memory(), 0, kBlobBytes);
    first->record(*written);
    if (flaw != Flaw::kEventWaitDropped) second->wait(*written);
    second->copy(*rows, 0, *between, 0, kBlobBytes);
    second->record(*taken);
    got.add(*second, floats(*rows));
    expected += static_cast<float>(round * (round + 1) / 2);
  }
  Status status = end_of({first.get(), second.get()});
  return {std::move(status), got.is(*second, expected)};
}

// Steps whose inputs lie in one pinned buffer, and a host task that computes experts between operations.
Outcome steps(SimMachine& machine, Flaw flaw) {
  SimDevice& device = machine.device(0);
  const auto stream = device.make_stream("compute");
  const auto inputs = host_buffer(device, kBlobBytes, MemoryKind::kPinned, "step inputs");
  const MemoryKind kind = flaw == Flaw::kPageableTakenAsPinned ? MemoryKind::kPageable : MemoryKind::kPinned;
  const auto rows = host_buffer(device, kBlobBytes, kind, "expert rows");
  const auto x = device.allocate(kBlobBytes, "x").value(), y = device.allocate(kBlobBytes, "y").value();
  const Sum sum(device, *stream);
  float doubled = 0;
  const HostTask experts = task_of("experts",
                                   [&]() -> Status {
                                     const auto out = rows->write<float>(0, kBlobFloats);
                                     for (float& f : out.span()) f = doubled;
                                     return {};
                                   },
                                   {range_of(*rows, true)});
  Status status;
  float expected = 0;
  for (int round = 1; round <= kRounds && status.ok(); round++) {
    set_floats(*inputs, static_cast<float>(round));
    doubled = static_cast<float>(2 * round);
    stream->copy(*x, 0, *inputs, 0, kBlobBytes);
    if (flaw == Flaw::kHostWriteAfterQueue) set_floats(*inputs, 0);
    sum.add(*stream, floats(*x));
    const device::Ticket ticket = stream->host_task(experts);
    if (flaw != Flaw::kTaskNotAwaited) stream->wait(ticket);
    stream->copy(*y, 0, *rows, 0, kBlobBytes);
    sum.add(*stream, floats(*y));
    status = end_of({stream.get()});
    expected += static_cast<float>(3 * round);
  }
  const bool right = sum.is(*stream, expected);
  return {std::move(status), right};
}

}  // namespace

const std::vector<Program>& programs() {
  static const std::vector<Program> all = {
      {"stage pool",
       stage_pool,
       {{Flaw::kOneEventPerBuffer, "stage buffer"},
        {Flaw::kRefillWithoutWaiting, "stage buffer"},
        {Flaw::kReadNotReaped, "stage buffer"},
        {Flaw::kFenceLostAtClose, "stage buffer"}}},
      {"cache",
       cache,
       {{Flaw::kEventWaitDropped, "slots"},
        {Flaw::kTableEntryBeforeCopy, "slots"},
        {Flaw::kEvictionBeforeReaders, "slots"}}},
      {"loan",
       loan,
       {{Flaw::kLoanWithoutWaitingForReaders, "lend region"}, {Flaw::kRestoreBeforeBorrower, "lend region"}}},
      {"hand-off",
       hand_off,
       {{Flaw::kEventWaitDropped, "hand-off buffer"}, {Flaw::kHandOffBufferReused, "hand-off buffer"}}},
      {"steps",
       steps,
       {{Flaw::kHostWriteAfterQueue, "step inputs"},
        {Flaw::kPageableTakenAsPinned, "expert rows"},
        {Flaw::kTaskNotAwaited, "expert rows"}}},
  };
  return all;
}

const char* flaw_name(Flaw flaw) {
  static constexpr const char* kNames[] = {"none",
                                           "event wait dropped",
                                           "one event per buffer",
                                           "refill without waiting",
                                           "read not reaped",
                                           "pageable taken as pinned",
                                           "table entry before the copy",
                                           "eviction before readers",
                                           "loan without waiting for readers",
                                           "restore before the borrower",
                                           "hand-off buffer reused",
                                           "fence lost at close",
                                           "host write after queue",
                                           "task not awaited"};
  return kNames[static_cast<size_t>(flaw)];
}

}  // namespace strata::test
