// A source that waits long is told of, once for each wait.
#include "engine/source_watch.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/log.h"

namespace strata::test {
namespace {

// Says that it waits when told to, and counts how often it was asked.
class WaitingSource final : public experts::ExpertSource {
 public:
  const char* name() const override { return "waiting"; }
  std::optional<experts::Lease> try_lease(experts::ExpertKey) override { return {}; }
  Status fetch(std::span<const experts::ExpertKey>, std::span<experts::Lease>) override { return {}; }
  const char* waiting_for() const override {
    asked_++;
    return waits ? "the drive" : nullptr;
  }
  // Returns when it was asked some more times, and all of what follows an answer is done but for the last.
  void be_asked() const {
    for (const int until = asked_ + 3; asked_ < until;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::atomic<bool> waits = false;

 protected:
  void release(uint32_t) override {}
  void note_async_read(uint32_t, device::Stream&) override {}

 private:
  mutable std::atomic<int> asked_ = 0;
};

int count(const std::string& text, const std::string& piece) {
  int n = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) n++;
  return n;
}

TEST(SourceWatch, TellsOncePerWait) {
  WaitingSource source;
  testing::internal::CaptureStderr();
  {
    const engine::SourceWatch watch(source, 1'000'000);
    for (int wait = 0; wait < 2; wait++) {
      source.waits = false;
      source.be_asked();
      source.waits = true;
      source.be_asked();
    }
  }
  EXPECT_EQ(count(testing::internal::GetCapturedStderr(), "waiting for the drive"), 2);
}

}  // namespace
}  // namespace strata::test
