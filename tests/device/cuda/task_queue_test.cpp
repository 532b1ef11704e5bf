// The queue of host tasks, with the test in the place of the stream that asks for them.
#include "device/cuda/task_queue.h"

#include <string>

#include <gtest/gtest.h>

namespace strata::device::cuda {
namespace {

// Stands for the stream: what it does is up to the test.
struct FakeStream final : TaskUser {
  bool draining() const override { return drains; }
  void task_failed(Error error) override {
    done_at_failure = words.done;
    failures.push_back(error.message);
  }
  bool lost() const override { return is_lost; }
  void probe() override {
    probes++;
    while (probe_hangs) std::this_thread::yield();
    if (lost_when_probed) is_lost = true;
  }
  // As the stream does when it comes to a task.
  void ask(uint32_t number) { words.requested.store(number, std::memory_order_release); }

  TaskWords words;
  std::atomic<bool> drains{false}, is_lost{false}, lost_when_probed{false}, probe_hangs{false};
  std::atomic<int> probes{0};
  // Of the queue's thread; read while the queue is idle.
  std::vector<std::string> failures;
  uint32_t done_at_failure = 0;
};

class TaskQueueTest : public testing::Test {
 protected:
  FakeStream stream_;
  TaskQueue queue_{stream_};
  std::string ran_;  // the names of the tasks that ran, in order
  std::vector<std::unique_ptr<HostTask>> tasks_;

  const HostTask& task(const char* name, Status result = {}) {
    const auto run = [this, name, result]() -> Status {
      ran_ += name;
      return result;
    };
    tasks_.push_back(std::make_unique<HostTask>(HostTask{.name = name, .run = run, .ranges = {}}));
    return *tasks_.back();
  }
  const HostTask& failing(const char* name) { return task(name, Error{ErrorCode::kIo, std::string(name) + " failed"}); }
  void push(const HostTask& task, uint32_t number) {
    queue_.push({.task = &task, .words = &stream_.words, .number = number});
  }
};

TEST_F(TaskQueueTest, TasksRunInOrderOnceTheyAreAskedFor) {
  push(task("a"), 1);
  push(task("b"), 2);
  stream_.ask(1);
  while (stream_.words.done != 1) std::this_thread::yield();
  EXPECT_EQ(ran_, "a");
  push(task("c"), 3);
  stream_.ask(3);
  queue_.wait_idle();
  EXPECT_EQ(ran_, "abc");
  EXPECT_EQ(stream_.words.done, 3u);
}

TEST_F(TaskQueueTest, NumbersWrapAround) {
  stream_.ask(UINT32_MAX - 1);
  push(task("a"), UINT32_MAX - 1);
  push(task("b"), UINT32_MAX);
  push(task("c"), 0);
  push(task("d"), 1);
  stream_.ask(1);
  queue_.wait_idle();
  EXPECT_EQ(ran_, "abcd");
  EXPECT_EQ(stream_.words.done, 1u);
}

TEST_F(TaskQueueTest, AStreamThatDrainsIsAnsweredWithoutRunningTasks) {
  stream_.drains = true;
  push(task("a"), 1);
  stream_.ask(1);
  queue_.wait_idle();
  EXPECT_EQ(ran_, "");
  EXPECT_EQ(stream_.words.done, 1u);
}

TEST_F(TaskQueueTest, AnAwaitedFailureIsToldBeforeTheAnswer) {
  push(failing("a"), 1);
  EXPECT_FALSE(queue_.await(1));
  push(task("b"), 2);
  stream_.ask(2);
  queue_.wait_idle();
  EXPECT_EQ(stream_.failures, std::vector<std::string>{"a failed"});
  EXPECT_EQ(stream_.done_at_failure, 0u);
  EXPECT_EQ(stream_.words.done, 2u);
}

TEST_F(TaskQueueTest, AFailureThatNobodyAwaitsIsKeptForWhoeverDoes) {
  push(failing("a"), 1);
  push(failing("b"), 2);
  push(task("c"), 3);
  stream_.ask(3);
  queue_.wait_idle();
  EXPECT_TRUE(stream_.failures.empty());
  const auto second = queue_.await(2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->message, "b failed");
  EXPECT_FALSE(queue_.await(3));
  queue_.forget_failures();
  EXPECT_FALSE(queue_.await(1));
  EXPECT_FALSE(queue_.await(2));
}

TEST_F(TaskQueueTest, TheLastTaskOfAGraphTakesTheRequestBack) {
  const HostTask &a = task("a"), &b = failing("b");
  const TaskRequest first{.task = &a, .words = &stream_.words, .number = 1, .of_graph = true};
  const TaskRequest last{.task = &b, .words = &stream_.words, .number = 2, .of_graph = true, .last = true};
  for (int replay = 0; replay < 3; replay++) {
    queue_.push(first);
    queue_.push(last);
    stream_.ask(1);
    while (stream_.words.done != 1) std::this_thread::yield();
    EXPECT_EQ(stream_.words.requested, 1u);
    stream_.ask(2);
    while (stream_.words.done != 2) std::this_thread::yield();
    EXPECT_EQ(stream_.words.requested, 0u) << "the next replay begins anew";
    stream_.words.done = 0;  // as the graph does at its end
  }
  queue_.wait_idle();
  EXPECT_EQ(ran_, "ababab");
  EXPECT_FALSE(queue_.await(2)) << "tickets of a graph mean nothing outside";
  EXPECT_TRUE(stream_.failures.empty());
}

TEST_F(TaskQueueTest, AFullQueueHoldsUpThePusher) {
  const HostTask& a = task("");
  constexpr uint32_t kTasks = TaskQueue::kCapacity + 500;
  std::atomic<uint32_t> n_pushed{0};
  Thread pusher([&] {
    for (uint32_t number = 1; number <= kTasks; number++) {
      push(a, number);
      n_pushed++;
    }
  });
  while (n_pushed != TaskQueue::kCapacity) std::this_thread::yield();
  for (uint32_t number = 1; number <= 20; number++) {
    stream_.ask(number);
    while (stream_.words.done != number) std::this_thread::yield();
    EXPECT_LE(n_pushed, TaskQueue::kCapacity + number);
  }
  stream_.ask(kTasks);
  pusher.join();
  queue_.wait_idle();
  EXPECT_EQ(n_pushed, kTasks);
}

// Requests that will never come are answered, all of them at once.
TEST_F(TaskQueueTest, AStreamThatIsLostIsNotWaitedFor) {
  stream_.drains = true;
  stream_.lost_when_probed = true;
  for (uint32_t number = 1; number <= 500; number++) push(task("a"), number);
  queue_.wait_idle();
  EXPECT_EQ(ran_, "");
  EXPECT_GE(stream_.probes, 1);
  EXPECT_LT(stream_.probes, 100) << "one finds out for all of them";
}

// A driver may let no other call in while one of them waits for the device, which waits for an answer.
TEST_F(TaskQueueTest, TasksAreAnsweredWhileTheDriverLetsNobodyIn) {
  stream_.probe_hangs = true;
  push(task("a"), 1);
  Thread waiter([&] { queue_.wait_idle(); });
  while (stream_.probes == 0) std::this_thread::yield();
  stream_.ask(1);
  while (stream_.words.done != 1) std::this_thread::yield();
  stream_.probe_hangs = false;
  waiter.join();
  EXPECT_EQ(ran_, "a");
}

}  // namespace
}  // namespace strata::device::cuda
