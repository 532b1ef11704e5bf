#include "engine/soak/run.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>

#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/random.h"

namespace strata::test {
namespace {

using engine::Finish;
using engine::RequestHandle;

constexpr size_t kClients = 2;
constexpr int kSamples = 60;

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Cancels requests in the middle of steps: as the layers go by that they were given.
class Canceller final : public experts::RoutingObserver {
 public:
  // Between steps.
  void cancel_after(int64_t n_layers, std::shared_ptr<RequestHandle> handle) {
    std::erase_if(pending_, [](const Pending& pending) { return pending.layers_left == 0; });
    if (n_layers == 0) return handle->cancel();
    pending_.push_back({n_layers, std::move(handle)});
  }
  void routed(int32_t, const device::In<int32_t>&) override {
    for (Pending& pending : pending_) {
      if (pending.layers_left > 0 && --pending.layers_left == 0) pending.handle->cancel();
    }
  }

 private:
  struct Pending {
    int64_t layers_left;
    std::shared_ptr<RequestHandle> handle;
  };
  std::vector<Pending> pending_;
};

class Run {
 public:
  Run(engine::Engine& engine, const text::Tokenizer& tokenizer, const SoakQuestions& questions,
      const SoakOptions& options)
      : engine_(engine), questions_(questions), options_(options), random_(options.seed),
        scheduler_(engine, tokenizer, engine::SchedulerOptions{},
                   options.least_seconds > 0 ? real_clock() : static_cast<Clock&>(still_clock_)) {
    engine_.routing().add(canceller_);
  }
  ~Run() { engine_.routing().remove(canceller_); }

  SoakReport run() {
    for (Client& client : clients_) start_chat(client);
    while (report_.wrong.empty() && progress() < 1) {
      for (Client& client : clients_) go_on(client);
      if (std::all_of(clients_.begin(), clients_.end(), [](const Client& c) { return c.listener != nullptr; })) {
        report_.steps_together++;
      }
      scheduler_.step();
      judge();
      if (progress() * kSamples >= static_cast<double>(report_.samples.size())) sample();
    }
    while (scheduler_.step()) continue;
    judge();
    for (Client& client : clients_) client.chat.reset();
    ask_all_again();
    sample();
    return std::move(report_);
  }

 private:
  struct Client {
    std::optional<engine::Conversation> chat;
    size_t topic = 0, turn = 0;
    int64_t rests = 0;                       // steps that it asks nothing for
    std::unique_ptr<SoakListener> listener;  // of the request that runs
    std::shared_ptr<RequestHandle> handle;
    const SoakQuestion* asked = nullptr;
    bool is_turn = false;
  };

  int64_t below(int64_t bound) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound))); }
  template <class T>
  const T& some(const std::vector<T>& all) { return all[random_.below(all.size())]; }

  double seconds() const { return static_cast<double>(real_clock().now_ns() - begin_ns_) / 1e9; }
  double progress() const {
    const double by_count =
        static_cast<double>(report_.requests()) / static_cast<double>(std::max<int64_t>(options_.least_requests, 1));
    return options_.least_seconds > 0 ? std::min(by_count, seconds() / options_.least_seconds) : by_count;
  }

  void start_chat(Client& client) {
    client.chat.reset();
    client.chat.emplace(engine::Conversation::create(engine_).value());
    client.topic = random_.below(questions_.chats.size());
    client.turn = 0;
  }

  void go_on(Client& client) {
    if (client.listener || client.rests-- > 0) return;
    ask(client);
    client.rests = below(4) == 0 ? below(16) : 0;
  }

  void ask(Client& client) {
    client.is_turn = below(2) == 0;
    if (client.turn == questions_.chats[client.topic].size() || below(32) == 0) start_chat(client);
    client.asked = client.is_turn ? &questions_.chats[client.topic][client.turn] : &some(questions_.prompts);
    client.listener = std::make_unique<SoakListener>();
    auto handle = scheduler_.submit(client.is_turn ? &*client.chat : nullptr, client.asked->prompt,
                                    client.asked->params, *client.listener);
    client.handle = std::move(handle).value();
    if (below(4) == 0) canceller_.cancel_after(some_layer(*client.asked), client.handle);
  }

  // One that is computed for the question's prompt, or for its answer, from the first: about, since steps are shared.
  int64_t some_layer(const SoakQuestion& question) {
    const int64_t n_layers = engine_.hparams().n_expert_layers();
    const int64_t prompt = (static_cast<int64_t>(question.prompt.size()) / engine_.max_rows() + 1) * n_layers;
    if (below(2) == 0) return below(prompt);
    return prompt + below(std::ssize(question.answer.ids) * n_layers);
  }

  void judge() {
    for (Client& client : clients_) {
      if (!client.listener || !client.listener->finished) continue;
      judge(client);
      client.listener.reset();
    }
  }

  void judge(Client& client) {
    const SoakListener& listener = *client.listener;
    const bool cancelled = listener.result.finish == Finish::kCancelled;
    std::string wrong = client.asked->answer.difference(listener.answer, cancelled);
    if (!listener.result.error.ok()) wrong = listener.result.error.error().message;
    if (cancelled && !client.handle->cancelled()) wrong = "it was cancelled by nobody";
    if (!wrong.empty()) {
      report_.wrong.push_back(format("request {}, of {} tokens, {} of them kept{}: {}", report_.requests() + 1,
                                     client.asked->prompt.size(), listener.result.kept_tokens,
                                     client.is_turn ? ", a turn" : "", wrong));
    } else if (cancelled) {
      (listener.answer.ids.empty() ? report_.cancelled_prompts : report_.cancelled_answers)++;
    } else {
      (client.is_turn ? report_.turns : report_.prompts)++;
      if (client.is_turn) client.turn++;
    }
    report_.kept_tokens += listener.result.kept_tokens;
  }

  void ask_all_again() {
    const auto ask = [&](const SoakQuestion& question) {
      const std::string wrong = question.answer.difference(answer_alone(scheduler_, question), false);
      if (wrong.empty()) return;
      report_.wrong.push_back(format("alone afterwards, of {} tokens: {}", question.prompt.size(), wrong));
    };
    for (const SoakQuestion& question : questions_.prompts) ask(question);
    for (const auto& chat : questions_.chats) std::for_each(chat.begin(), chat.end(), ask);
  }

  void sample() {
    report_.samples.push_back({.seconds = seconds(),
                               .requests = report_.requests(),
                               .ram_bytes = resident_bytes(),
                               .device_bytes = options_.device_bytes ? options_.device_bytes() : 0});
    if (options_.on_sample) options_.on_sample(report_.samples.back());
  }

  engine::Engine& engine_;
  const SoakQuestions& questions_;
  const SoakOptions& options_;
  const int64_t begin_ns_ = real_clock().now_ns();
  Random random_;
  ManualClock still_clock_;  // a run without a time cuts its prompts the same way every time
  engine::Scheduler scheduler_;
  Canceller canceller_;
  std::array<Client, kClients> clients_;
  SoakReport report_;
};

}  // namespace

SoakReport run_soak(engine::Engine& engine, const text::Tokenizer& tokenizer, const SoakQuestions& questions,
                    const SoakOptions& options) {
  return Run(engine, tokenizer, questions, options).run();
}

}  // namespace strata::test
