// All that is served: the APIs, and the pages about the server itself.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/core/api_call.h"
#include "server/core/pages.h"
#include "server/core/work_queue.h"
#include "server/http/handler.h"

namespace strata::server {

struct ServiceOptions {
  int64_t max_queue = 64;           // answers that wait for a slot
  int64_t request_timeout_s = 3600;  // 0: none
  int64_t keep_alive_ms = 10'000;   // of silence in a stream
  int max_json_depth = 64;
  int64_t max_body_bytes = 16 << 20;
  std::string version = {};
};

class Service final : public http::Handler {
 public:
  // Of endpoints with a tail in their path, those come last. What it is given outlives it; but the generator may end
  // before, once finish_work() has returned.
  Service(Generator& generator, std::vector<const Endpoint*> endpoints, const Stats* stats,
          const ServiceOptions& options, Clock& clock);

  std::optional<http::Route> find(std::string_view path) const override;
  std::string error_body(std::string_view path, const http::Refusal& refusal) const override;
  std::shared_ptr<http::Call> start(const http::RequestHead& head, http::Body body,
                                    std::shared_ptr<http::Responder> responder) override;
  void ended(const http::RequestHead& head, int status, int64_t duration_ns, const std::string& summary) override;

  // For /metrics: how many connections there are. Before it serves.
  void set_connections(std::function<size_t()> connections) { page_parts_.connections = std::move(connections); }

  // Requests are refused from now on; those under way go on. Any thread, as the next ones.
  void stop() { stopping_.store(true); }
  // Those under way end, and their clients are told.
  void end_all();
  int64_t under_way() const { return slots_.admitted(); }
  // No connection calls any more: waits for the workers. Once.
  void finish_work() { workers_.reset(); }

 private:
  const Endpoint* find_endpoint(std::string_view method, std::string_view path) const;
  const Endpoint* find_endpoint(std::string_view path) const;
  // One that `path` goes on from: whoever asks for "/v1/messages/batches" is a client of "/v1/messages".
  const Endpoint* find_parent(std::string_view path) const;
  void remember(const std::shared_ptr<RunningCall>& call);

  const std::vector<const Endpoint*> endpoints_;
  const ServiceOptions options_;
  Slots slots_;
  Metrics metrics_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<WorkQueue> workers_;
  CallParts call_parts_;
  PageParts page_parts_;
  Random nonces_;  // of the connections' thread
  Mutex mutex_;    // guards calls_
  std::vector<std::weak_ptr<RunningCall>> calls_;
  size_t prune_at_ = 64;
};

}  // namespace strata::server
