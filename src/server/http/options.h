// Limits and times of connections. The defaults are what people get; tests shorten them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::server::http {

struct HttpOptions {
  size_t max_header_bytes = 16 << 10;
  size_t max_connections = 4096;         // past them, those that ask for nothing make room
  size_t max_pending_bytes = 1 << 20;    // of a stream, that its client has not taken
  int64_t max_body_budget = 4;           // bodies of the largest size that are in memory at once
  int64_t header_timeout_ms = 10'000;    // from a request's first byte, or the connection's begin, to its head's end
  int64_t idle_timeout_ms = 75'000;      // between two requests
  int64_t body_timeout_ms = 15'000;      // for a body of no bytes; it has longer by what has come of it:
  int64_t body_bytes_per_s = 16 << 10;   //   at this rate
  int64_t write_timeout_ms = 30'000;     // without a byte taken by the client
  int64_t probe_ms = 5'000;              // between two looks whether a client who has ended his side is there
  int64_t linger_ms = 1'000;             // for the client to read the last answer before the connection ends
  int64_t tick_ms = 100;                 // how exact these times are
  int send_buffer_bytes = 0;             // of the system, for a connection; 0: as it likes
};

}  // namespace strata::server::http
