// The host tasks of a stream that runs beside the host, and the thread that runs them.
//
// A stream asks for a task by raising a word in memory that both sides see; the queue's thread sees it, runs the task
// and answers in another word, which the stream waits for. Tasks run in the order in which they were pushed, which has
// to be the order in which the stream asks for them: so the thread watches one word at a time, and numbers that only
// grow say all. The numbers of a graph's tasks start at 1 with every replay; its last task takes the word back to 0
// before it is answered, and the graph itself takes back the answer.
//
// While it waits the thread calls nothing of the device's driver: a call may have to wait there for another thread's,
// which in turn may wait until the device goes on, and that is for an answer of this thread.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/sync.h"
#include "device/device.h"

namespace strata::device::cuda {

// Each alone in its cache line (and the next one, which processors fetch with it).
struct TaskWords {
  alignas(128) std::atomic<uint32_t> requested{0};  // written by the stream
  alignas(128) std::atomic<uint32_t> done{0};       // written by the thread
};

// Numbers wrap around: how far apart they are says which comes first.
inline bool reached(uint32_t word, uint32_t number) { return static_cast<int32_t>(word - number) >= 0; }

struct TaskRequest {
  const HostTask* task = nullptr;
  TaskWords* words = nullptr;
  uint32_t number = 0;  // that `requested` reaches, and then `done`
  bool of_graph = false;
  bool last = false;     // of its graph
  bool awaited = false;  // something of the stream waits for it: its failure is the stream's
};

// What the queue asks and tells its stream. Called by the queue's thread, where nothing else is said.
class TaskUser {
 public:
  virtual ~TaskUser() = default;
  // Tasks are answered without being run.
  virtual bool draining() const = 0;
  // An awaited task has failed; it is answered when this returns.
  virtual void task_failed(Error error) = 0;
  // The stream will never ask again: tasks are answered without waiting for it.
  virtual bool lost() const = 0;
  // Called now and then by threads that wait for the queue, to find out whether it is lost.
  virtual void probe() = 0;
};

class TaskQueue {
 public:
  // `user` outlives the queue.
  explicit TaskQueue(TaskUser& user);
  // The queue is idle.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Before the stream can wait for the answer. Waits while kCapacity tasks are ahead.
  void push(const TaskRequest& request);
  // Of a task that belongs to no graph: from now on something of the stream waits for it. Its error, if it has failed
  // since the last forget_failures().
  std::optional<Error> await(uint32_t number);
  void forget_failures();
  // Until all that was pushed is answered.
  void wait_idle();

  static constexpr size_t kCapacity = 1024;

 private:
  struct Failure {
    uint32_t number;
    Error error;
  };

  // Until `seen`, under the mutex; a stream that will never ask again is found out.
  template <class Seen>
  void wait_for_pop(std::unique_lock<Mutex>& lock, const Seen& seen);
  void run();
  TaskRequest* next();
  void await_request(const TaskRequest& request);
  // While a task runs: whether the stream asks for the one behind it. Any thread that the task employs.
  bool next_requested();
  void answer(TaskRequest& request, Status status);
  void pop();
  TaskRequest& at(uint64_t index) { return ring_[index % kCapacity]; }

  TaskUser& user_;
  std::array<TaskRequest, kCapacity> ring_;
  // Written under the mutex; read without it by the thread, before it sleeps.
  std::atomic<uint64_t> n_pushed_{0}, n_popped_{0};
  std::atomic<bool> stopping_{false};
  // Guarded by the mutex.
  std::vector<Failure> failures_;  // of tasks that nothing waits for yet
  bool answered_ = false;          // the head has its result, which await() finds in failures_ alone
  int n_waiting_ = 0;              // threads that wait for pop()

  Mutex mutex_;
  std::condition_variable_any pushed_, popped_;
  Thread thread_;
};

}  // namespace strata::device::cuda
