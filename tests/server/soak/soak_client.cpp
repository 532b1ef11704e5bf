#include "server/soak/soak_client.h"

#include <algorithm>

#include "base/clock.h"
#include "server/soak/questions.h"

namespace strata::test {
namespace {

constexpr size_t kHalfOpen = 3;
constexpr size_t kTooMuch = (1 << 20) + 1;  // the server is started with --max-body-mib=1
constexpr const char* kHead = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

std::string chunk(std::string_view bytes) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + std::string(bytes) + "\r\n";
}

}  // namespace

const SoakClient::Behaviour SoakClient::kBehaviours[] = {
    {"whole answers", &SoakClient::ask_whole},
    {"streams", &SoakClient::ask_stream},
    {"two on one connection", &SoakClient::ask_twice_on_one_connection},
    {"chunked bodies", &SoakClient::ask_in_chunks},
    {"half-closed sockets", &SoakClient::ask_and_end_sending},
    {"slow readers", &SoakClient::read_slowly},
    {"readers of nothing", &SoakClient::read_nothing},
    {"aborts at once", &SoakClient::leave_at_once},
    {"aborts in between", &SoakClient::leave_in_between},
    {"half-open sockets", &SoakClient::stay_half_open},
    {"half bodies", &SoakClient::send_half_a_body},
    {"oversized bodies", &SoakClient::send_too_much},
    {"oversized chunked bodies", &SoakClient::send_too_many_chunks},
    {"broken chunks", &SoakClient::send_broken_chunks},
    {"no JSON", &SoakClient::send_no_json},
    {"no HTTP", &SoakClient::send_no_http},
};

std::span<const SoakClient::Behaviour> SoakClient::all() { return kBehaviours; }

SoakClient::SoakClient(uint16_t port, std::span<const std::string> lone, uint64_t seed)
    : port_(port), lone_(lone), random_(seed) {
  counts_.done.resize(all().size());
}

std::vector<std::string> SoakClient::behaviours() {
  std::vector<std::string> names;
  for (const Behaviour& behaviour : all()) names.emplace_back(behaviour.name);
  return names;
}

void SoakClient::do_something() {
  const size_t which = random_.below(all().size());
  (this->*all()[which].act)();
  counts_.done[which]++;
}

SoakClient::Asked SoakClient::choose(bool stream) {
  const size_t which = random_.below(questions().size());
  Asked asked{.question = which, .stream = stream, .body = body_of(questions()[which], stream), .request = {}};
  asked.request = post(questions()[which].path, asked.body);
  return asked;
}

void SoakClient::pause(int64_t max_ms) {
  real_clock().sleep_ns(static_cast<int64_t>(random_.below(static_cast<uint64_t>(max_ms) * 1'000'000)));
}

void SoakClient::fail(const char* behaviour, const std::string& what) {
  counts_.wrong.push_back(std::string(behaviour) + ": " + what);
}

void SoakClient::expect_lone_answer(Wire& wire, const Asked& asked, const char* behaviour) {
  auto answer = wire.answer();
  while (answer && answer->status == 100) answer = wire.answer();
  if (!answer) return fail(behaviour, "no answer");
  if (answer->status == 429) {
    counts_.busy++;
    return;
  }
  if (answer->status != 200) return fail(behaviour, std::to_string(answer->status) + " " + answer->body);
  const auto text = text_of_answer(questions()[asked.question], asked.stream, answer->body);
  if (text != lone_[asked.question]) return fail(behaviour, "another answer: " + answer->body);
  counts_.finished++;
}

void SoakClient::expect_status(Wire& wire, int status, const char* behaviour) {
  const auto answer = wire.answer();
  if (answer && status == 413 && answer->status == 503) {  // it has no memory for another large body
    counts_.busy++;
    return;
  }
  if (!answer || answer->status != status) {
    return fail(behaviour, answer ? std::to_string(answer->status) + " " + answer->body : "no answer");
  }
  counts_.refused++;
}

void SoakClient::ask_whole() {
  Wire wire(port_);
  const Asked asked = choose(false);
  wire.send(asked.request);
  expect_lone_answer(wire, asked, "whole");
}

void SoakClient::ask_stream() {
  Wire wire(port_);
  const Asked asked = choose(true);
  wire.send(asked.request);
  expect_lone_answer(wire, asked, "stream");
}

void SoakClient::ask_twice_on_one_connection() {
  Wire wire(port_);
  const Asked first = choose(flip()), second = choose(flip());
  wire.send(first.request + second.request);
  expect_lone_answer(wire, first, "first of two");
  expect_lone_answer(wire, second, "second of two");
}

void SoakClient::ask_in_chunks() {
  Wire wire(port_);
  Asked asked = choose(flip());
  wire.send("POST " + std::string(questions()[asked.question].path) +
            " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (size_t at = 0; at < asked.body.size();) {
    const size_t n = std::min<size_t>(1 + random_.below(40), asked.body.size() - at);
    wire.send(chunk(std::string_view(asked.body).substr(at, n)));
    at += n;
    if (random_.below(8) == 0) pause(3);
  }
  wire.send("0\r\n\r\n");
  expect_lone_answer(wire, asked, "chunked");
}

void SoakClient::ask_and_end_sending() {
  Wire wire(port_);
  const Asked asked = choose(flip());
  wire.send(asked.request);
  wire.end_sending();
  expect_lone_answer(wire, asked, "half-closed");
}

void SoakClient::read_slowly() {
  Wire wire(port_, 2048);
  wire.read_in_pieces(200, 1'000'000);
  const Asked asked = choose(flip());
  wire.send(asked.request);
  expect_lone_answer(wire, asked, "slow");
}

void SoakClient::read_nothing() {
  Wire wire(port_, 2048);
  wire.send(choose(true).request);
  pause(200);
}

void SoakClient::leave_at_once() {
  Wire wire(port_);
  wire.send(choose(flip()).request);
  if (flip()) wire.reset();
}

void SoakClient::leave_in_between() {
  Wire wire(port_);
  wire.send(choose(flip()).request);
  pause(150);
  if (flip()) wire.reset();
}

void SoakClient::stay_half_open() {
  Wire& wire = half_open_.emplace_back(port_);
  const std::string request = choose(flip()).request;
  wire.send(std::string_view(request).substr(0, random_.below(request.size())));
  if (half_open_.size() > kHalfOpen) half_open_.pop_front();
}

void SoakClient::send_half_a_body() {
  Wire wire(port_);
  const std::string request = choose(flip()).request;
  wire.send(std::string_view(request).substr(0, request.size() - 1 - random_.below(10)));
  wire.end_sending();
  if (!wire.closed_by_server()) fail("half a body", "not closed");
}

void SoakClient::send_too_much() {
  Wire wire(port_);
  if (flip()) {
    wire.send(kHead + std::string("Content-Length: 1073741824\r\n\r\n"));  // without a byte of it
  } else {
    wire.send(post("/v1/completions", std::string(kTooMuch, ' ')));
  }
  expect_status(wire, 413, "too much");
}

void SoakClient::send_too_many_chunks() {
  Wire wire(port_);
  wire.send(kHead + std::string("Transfer-Encoding: chunked\r\n\r\n"));
  const std::string piece = chunk(std::string(64 << 10, ' '));
  for (size_t sent = 0; sent < kTooMuch && wire.send(piece); sent += 64 << 10) continue;
  expect_status(wire, 413, "too many chunks");
}

void SoakClient::send_broken_chunks() {
  Wire wire(port_);
  wire.send(kHead + std::string("Transfer-Encoding: chunked\r\n\r\n5\r\n{\"pro\r\nxx\r\n"));
  expect_status(wire, 400, "broken chunks");
}

void SoakClient::send_no_json() {
  Wire wire(port_);
  const Asked asked = choose(flip());
  wire.send(post("/v1/completions", std::string_view(asked.body).substr(0, asked.body.size() - 1)));
  expect_status(wire, 400, "no JSON");
}

void SoakClient::send_no_http() {
  Wire wire(port_);
  std::string noise = "x";
  for (uint64_t i = 0, n = random_.below(300); i < n; i++) noise += static_cast<char>(random_.below(256));
  wire.send(noise + "\r\n\r\n");
  wire.end_sending();
  if (!wire.closed_by_server()) fail("no HTTP", "not closed");
}

}  // namespace strata::test
