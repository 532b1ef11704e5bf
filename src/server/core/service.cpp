#include "server/core/service.h"

#include <algorithm>

#include <unistd.h>

#include "base/format.h"
#include "base/log.h"

namespace strata::server {
namespace {

// Two, so that a large body does not keep small ones waiting; the cores are the engine's.
constexpr int kWorkers = 2;
constexpr std::string_view kTailMark = "{";
constexpr size_t kMaxLoggedPath = 64;

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// What stands for the last part of the endpoint's path, "{...}"; "" for a path without one; nullopt for another path.
std::optional<std::string> tail_of(const Endpoint& endpoint, std::string_view path) {
  const std::string_view own = endpoint.path();
  const size_t mark = own.find(kTailMark);
  if (mark == std::string_view::npos) return path == own ? std::optional<std::string>("") : std::nullopt;
  if (path.size() <= mark || path.substr(0, mark) != own.substr(0, mark)) return std::nullopt;
  return percent_decoded(path.substr(mark));
}

const Page* find_page(std::string_view path) {
  for (const Page& page : pages()) {
    if (page.path == path) return &page;
  }
  return nullptr;
}

std::string_view read_method(std::string_view method) { return method == "HEAD" ? "GET" : method; }

// What APIs call the kind of a refusal by HTTP.
std::string type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 408: return "timeout_error";
    case 503: return "overloaded_error";
    default: return "invalid_request_error";
  }
}

}  // namespace

Service::Service(Generator& generator, std::vector<const Endpoint*> endpoints, const Stats* stats,
                 const ServiceOptions& options, Clock& clock)
    : endpoints_(std::move(endpoints)),
      options_(options),
      slots_(generator.slots(), options.max_queue),
      workers_(std::make_unique<WorkQueue>(kWorkers)),
      call_parts_{.generator = generator,
                  .slots = slots_,
                  .metrics = metrics_,
                  .workers = *workers_,
                  .clock = clock,
                  .timeout_ns = options.request_timeout_s * 1'000'000'000,
                  .keep_alive_ns = options.keep_alive_ms * 1'000'000,
                  .max_json_depth = options.max_json_depth,
                  .stopping = stopping_},
      page_parts_{.generator = generator,
                  .slots = slots_,
                  .metrics = metrics_,
                  .stats = stats,
                  .clock = clock,
                  .connections = [] { return size_t{0}; },
                  .version = options.version,
                  .max_body_bytes = options.max_body_bytes},
      nonces_(static_cast<uint64_t>(clock.now_ns()) ^ (static_cast<uint64_t>(::getpid()) << 40)) {}

const Endpoint* Service::find_endpoint(std::string_view method, std::string_view path) const {
  for (const Endpoint* endpoint : endpoints_) {
    if (endpoint->method() == method && tail_of(*endpoint, path)) return endpoint;
  }
  return nullptr;
}

const Endpoint* Service::find_endpoint(std::string_view path) const {
  const Endpoint* post = find_endpoint("POST", path);
  return post != nullptr ? post : find_endpoint("GET", path);
}

const Endpoint* Service::find_parent(std::string_view path) const {
  const auto begins = [&](const Endpoint* endpoint) {
    return path.starts_with(endpoint->path()) && path.substr(endpoint->path().size()).starts_with('/');
  };
  const auto found = std::find_if(endpoints_.begin(), endpoints_.end(), begins);
  return found != endpoints_.end() ? *found : nullptr;
}

std::optional<http::Route> Service::find(std::string_view path) const {
  if (const Page* page = find_page(path)) return http::Route{.get = true, .is_public = page->is_public};
  const http::Route route{.get = find_endpoint("GET", path) != nullptr,
                          .post = find_endpoint("POST", path) != nullptr};
  return route.get || route.post ? std::optional(route) : std::nullopt;
}

std::string Service::error_body(std::string_view path, const http::Refusal& refusal) const {
  const ApiError error{.http_status = refusal.status,
                       .type = type_of(refusal.status),
                       .code = refusal.code,
                       .message = refusal.message};
  const Endpoint* endpoint = find_endpoint(path);
  if (endpoint == nullptr) endpoint = find_parent(path);
  return endpoint != nullptr ? endpoint->error_body(error) : openai_error_body(error);
}

std::shared_ptr<http::Call> Service::start(const http::RequestHead& head, http::Body body,
                                           std::shared_ptr<http::Responder> responder) {
  if (const Page* page = find_page(head.path())) {
    responder->answer(page->make(page_parts_));
    return nullptr;
  }
  const Endpoint* endpoint = find_endpoint(read_method(head.method), head.path());
  ASSERT(endpoint != nullptr);  // find() has said so
  auto call = std::make_shared<RunningCall>(*endpoint, *tail_of(*endpoint, head.path()), std::move(body),
                                            std::move(responder), nonces_.next(), call_parts_);
  remember(call);
  workers_->push([call] { call->open(); });
  return call;
}

void Service::ended(const http::RequestHead& head, int status, int64_t duration_ns, const std::string& summary) {
  metrics_.answered(status);
  log_info("{} {} {} {} in {} ms{}", head.id, printable(head.method, kMaxLoggedPath),
           printable(head.path(), kMaxLoggedPath), status, duration_ns / 1'000'000, summary);
}

void Service::remember(const std::shared_ptr<RunningCall>& call) {
  const LockGuard lock(mutex_);
  if (calls_.size() >= prune_at_) {
    std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
    prune_at_ = 2 * calls_.size() + 64;
  }
  calls_.push_back(call);
}

void Service::end_all() {
  std::vector<std::weak_ptr<RunningCall>> calls;
  {
    const LockGuard lock(mutex_);
    calls = calls_;
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->shut_down();
  }
}

}  // namespace strata::server
