// What the server tells about itself: /health, /props, /slots, /metrics. None of it is what anybody has asked or
// answered, or where files lie.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "server/core/generator.h"
#include "server/core/metrics.h"
#include "server/core/slots.h"
#include "server/http/message.h"

namespace strata::server {

struct PageParts {
  const Generator& generator;
  const Slots& slots;
  const Metrics& metrics;
  const Stats* stats;  // the engine's; may be null
  Clock& clock;
  std::function<size_t()> connections;
  std::string version;
  int64_t max_body_bytes;
};

struct Page {
  std::string_view path;
  bool is_public;  // without a key
  http::Answer (*make)(const PageParts& parts);
};

std::span<const Page> pages();

}  // namespace strata::server
