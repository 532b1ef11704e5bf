// The page-locking of arenas: what is locked, what the system refuses, and that copies come straight out of it.
#include "experts/arena_locks.h"

#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/format.h"
#include "experts/cached_rig.h"

namespace strata::test {
namespace {

using device::MappedAs;
using device::MemoryKind;
using experts::ArenaLocks;
using experts::ArenaSource;
using experts::ExpertKey;
using experts::Lease;
using testing::HasSubstr;

// A host with an arena beside a simulated device.
class ArenaLocking : public testing::Test {
 protected:
  std::unique_ptr<ArenaSource> arena() {
    return ArenaSource::create(*m_.model, m_.layout, host_, host_.compute().pool(), stats_).value();
  }
  static std::unique_ptr<device::sim::SimMachine> machine(uint64_t lock_bytes) {
    return device::sim::make_sim(format("sim:64MiB/lock={}", lock_bytes > 0 ? format("{}B", lock_bytes) : "off"))
        .value();
  }
  uint64_t blob() const { return m_.layout.layer(0).blob_bytes(); }
  uint64_t all() const { return m_.layout.total_bytes(); }
  // In slices of three experts at most, where not all is locked at once.
  ArenaLocks locks(device::Device& device, std::span<const std::byte> bytes) {
    return ArenaLocks({.device = device,
                       .layout = m_.layout,
                       .arena = bytes,
                       .mapped = MappedAs::kReadOnly,
                       .clock = clock_,
                       .slice_bytes = 4 * blob() - 1});
  }

  device::host::HostDevice host_{host_options(2)};
  ExpertModel m_{{.n_layers = 2, .n_experts = 5}, numbered_parts()};
  ManualClock clock_;
  Stats stats_;
};

TEST_F(ArenaLocking, IsOneRangeWhereThatIsAllowed) {
  const auto sim = machine(all());
  std::vector<std::byte> bytes(all() + 100);
  const ArenaLocks locked = locks(sim->device(0), bytes);
  EXPECT_EQ(locked.bytes(), all());
  EXPECT_EQ(locked.warning(), "");
  EXPECT_EQ(locked.report(), format("{} of {} page-locked in 0.00 s", format_bytes(all()), format_bytes(all())));
  for (size_t e = 0; e < 10; e++) EXPECT_EQ(locked.slice_of(e), locked.slice_of(0));
  EXPECT_EQ(locked.slice_of(0)->address(), bytes.data());
  EXPECT_EQ(locked.slice_of(0)->bytes(), all());
  EXPECT_EQ(ArenaLocks().slice_of(3), nullptr);
  EXPECT_EQ(ArenaLocks().report(), "");
}

TEST_F(ArenaLocking, ElseGoesInSlicesAsFarAsTheSystemLets) {
  std::vector<std::byte> bytes(all());
  for (uint64_t n = 0; n < 10; n++) {
    const auto sim = machine(n * blob() + (n > 0 ? blob() - 1 : 0));
    const ArenaLocks locked = locks(sim->device(0), bytes);
    const uint64_t whole = n / 3 * 3;  // slices
    EXPECT_EQ(locked.bytes(), whole * blob());
    for (size_t e = 0; e < 10; e++) {
      const device::HostBuffer* slice = locked.slice_of(e);
      ASSERT_EQ(slice != nullptr, e < whole) << e << " of " << whole;
      if (slice == nullptr) continue;
      EXPECT_EQ(slice->address(), bytes.data() + e / 3 * 3 * blob()) << "no expert lies in two";
      EXPECT_EQ(slice->bytes(), 3 * blob());
    }
    EXPECT_THAT(locked.warning(), HasSubstr(format("{} of the {} of experts", format_bytes((10 - whole) * blob()),
                                                   format_bytes(all()))));
    EXPECT_THAT(locked.warning(), HasSubstr("cannot be page-locked"));
    EXPECT_THAT(locked.warning(), HasSubstr("ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit"));
  }
}

TEST_F(ArenaLocking, LeasesAreOfLockedMemoryAsFarAsItGoes) {
  for (const uint64_t n : {0, 9, 10}) {
    const auto sim = machine(n * blob());
    const auto source = arena();
    EXPECT_EQ(source->try_lease({1, 2})->host_place(0).buffer, nullptr) << "before";
    source->page_lock(sim->device(0), clock_);
    for (int32_t e = 0; e < 5; e++) {
      const Lease lease = *source->try_lease({1, e});
      const Lease::HostPlace place = lease.host_place(1);
      ASSERT_EQ(place.buffer != nullptr, n == 10) << "slices are larger than this arena";
      if (place.buffer == nullptr) continue;
      EXPECT_EQ(place.buffer->kind(), MemoryKind::kPinned);
      EXPECT_EQ(place.buffer->address() + place.offset, lease.part(1));
    }
  }
}

// The end of an arena is the end of its locks, which has to come after the copies.
TEST_F(ArenaLocking, AnArenaThatEndsUnderACopyIsFound) {
  for (const bool waits : {true, false}) {
    const auto sim = machine(all());
    device::Device& device = sim->device(0);
    auto source = arena();
    source->page_lock(device, clock_);
    const auto stream = device.make_stream("copies");
    const auto target = device.allocate(blob(), "target").value();
    {
      Lease lease = *source->try_lease({0, 3});
      const Lease::HostPlace place = lease.host_place(0);
      stream->copy(*target, 0, *place.buffer, place.offset, m_.layout.layer(0).parts[0].bytes);
      lease.note_async_read(*stream);
    }
    if (waits) {
      EXPECT_TRUE(stream->synchronize().ok());
    }
    source.reset();
    static_cast<void>(stream->synchronize());
    EXPECT_EQ(sim->races().empty(), waits);
  }
}

TEST_F(ArenaLocking, PromptsStreamStraightOutOfIt) {
  const ExpertSpec spec{.n_layers = 2, .dim = 64, .ffn = 64, .n_experts = 6};
  const ExpertModel model(spec, random_parts(spec, 5));
  const CachedInputs in(spec, 8, 2, 9);
  CachedRig host(model, {});
  const std::vector<float> expected = host.run(in.routing, in.x, in.y);
  auto source = ArenaSource::create(*model.model, model.layout, host_, host_.compute().pool(), stats_).value();
  CachedRig rig(model, {.where = Where::kSim, .slots = 4, .ring_places = 8}, source.get());
  source->page_lock(rig.device(), clock_);
  const uint64_t copies = rig.machine().faults().visited(device::sim::FaultPoint::kCopy);
  EXPECT_TRUE(same_bits(rig.stream(in.routing, in.x, in.y), expected));
  const uint64_t locked = rig.machine().faults().visited(device::sim::FaultPoint::kCopy) - copies;
  // Through pinned buffers each blob is copied by itself; straight out of the arena neighbours are copied together.
  CachedRig pageable(model, {.where = Where::kSim, .slots = 4, .ring_places = 8});
  const uint64_t before = pageable.machine().faults().visited(device::sim::FaultPoint::kCopy);
  EXPECT_TRUE(same_bits(pageable.stream(in.routing, in.x, in.y), expected));
  const uint64_t packed = pageable.machine().faults().visited(device::sim::FaultPoint::kCopy) - before;
  EXPECT_LT(locked, packed);
  source.reset();  // its locks are the device's
}

}  // namespace
}  // namespace strata::test
