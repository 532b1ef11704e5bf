// Leases: who holds one, and when it is given back.
#include <array>

#include "experts/counting_source.h"
#include "experts/support.h"

namespace strata::test {
namespace {

using experts::ExpertKey;
using experts::HintKind;
using experts::Lease;

TEST(Lease, ADefaultOneHoldsNothing) {
  Lease lease;
  EXPECT_FALSE(lease.valid());
  lease.release();
  EXPECT_FALSE(lease.valid());
}

TEST(Lease, IsReleasedOnceWhenItDies) {
  CountingSource source;
  {
    const std::optional<Lease> lease = source.try_lease({1, 2});
    ASSERT_TRUE(lease.has_value());
    EXPECT_TRUE(lease->valid());
    EXPECT_EQ(lease->key(), (ExpertKey{1, 2}));
    EXPECT_EQ(lease->part(0), source.bytes());
    EXPECT_EQ(source.held(), 1);
  }
  EXPECT_EQ(source.held(), 0);
  EXPECT_EQ(source.released(), 1);
}

TEST(Lease, ReleaseIsDoneAtOnceAndNotAgain) {
  CountingSource source;
  Lease lease = *source.try_lease({0, 0});
  lease.release();
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(source.released(), 1);
  lease.release();
  EXPECT_EQ(source.released(), 1);
}

TEST(Lease, MovingPassesItOn) {
  CountingSource source;
  Lease first = *source.try_lease({0, 1});
  Lease second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(second.key(), (ExpertKey{0, 1}));
  EXPECT_EQ(source.released(), 0);

  // What the target held is given back.
  Lease third = *source.try_lease({0, 2});
  third = std::move(second);
  EXPECT_EQ(source.released(), 1);
  EXPECT_EQ(source.last_released(), (ExpertKey{0, 2}));
  EXPECT_EQ(third.key(), (ExpertKey{0, 1}));

  third = Lease();
  EXPECT_EQ(source.held(), 0);
  EXPECT_EQ(source.last_released(), (ExpertKey{0, 1}));
}

TEST(Lease, MovingToItselfKeepsIt) {
  CountingSource source;
  Lease lease = *source.try_lease({0, 1});
  Lease& same = lease;
  lease = std::move(same);
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(source.released(), 0);
}

TEST(Lease, NotesReachTheSourceWithItsPlace) {
  device::host::HostDevice device(host_options());
  const auto stream = device.make_stream("copies");
  CountingSource source;
  Lease a = *source.try_lease({0, 1});
  Lease b = *source.try_lease({0, 2});
  b.note_async_read(*stream);
  EXPECT_EQ(source.notes(), 1);
  EXPECT_EQ(source.last_noted(), (ExpertKey{0, 2}));
  EXPECT_EQ(source.last_stream(), stream.get());
}

// Leases of one expert that lies in a host buffer.
class BufferSource final : public CountingSource {
 public:
  explicit BufferSource(const device::HostBuffer& buffer) : buffer_(buffer) {}
  std::optional<Lease> try_lease(ExpertKey key) override {
    const std::byte* parts[] = {buffer_.address() + 8, buffer_.address() + 64};
    return make_lease(key, 0, parts, &buffer_);
  }

 private:
  void release(uint32_t) override {}
  const device::HostBuffer& buffer_;
};

TEST(Lease, SaysWhereAPartLiesInAHostBuffer) {
  device::host::HostDevice device(host_options());
  const auto buffer = device.allocate_host(128, device::MemoryKind::kPinned, "stage").value();
  BufferSource source(*buffer);
  Lease first = *source.try_lease({0, 0});
  const Lease lease = std::move(first);  // the place moves along
  EXPECT_EQ(lease.host_place(0).buffer, buffer.get());
  EXPECT_EQ(lease.host_place(0).offset, 8u);
  EXPECT_EQ(lease.host_place(1).offset, 64u);
  EXPECT_EQ(lease.part(1), buffer->address() + 64);

  CountingSource elsewhere;
  Lease other = std::move(*source.try_lease({0, 1}));
  other = *elsewhere.try_lease({0, 0});
  EXPECT_EQ(other.host_place(0).buffer, nullptr);
  EXPECT_EQ(other.host_place(0).offset, 0u);
}

TEST(Lease, ASourceThatReadsNothingTakesHintsAndAnyNumberOfLeases) {
  CountingSource source;
  const ExpertKey keys[] = {{0, 1}, {0, 1}};
  source.hint(keys, HintKind::kGuess);
  EXPECT_EQ(source.given(), 0);
  EXPECT_EQ(source.lease_limit(), INT64_MAX);
}

TEST(LeaseDeathTest, NothingToNoteWithoutALease) {
  device::host::HostDevice device(host_options());
  const auto stream = device.make_stream("copies");
  EXPECT_DEATH(Lease().note_async_read(*stream), "valid");
}

}  // namespace
}  // namespace strata::test
