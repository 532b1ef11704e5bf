// Goal: where a request ends is never a matter of opinion (P10): what can be read in two ways is refused, and what
// comes behind it on the same connection is not taken for a request. Method: as in connection_test.cpp.
#include <gtest/gtest.h>

#include "server/support/running.h"

namespace strata::server {
namespace {

using test::get;
using test::post;
using test::Wire;

const std::string kHead =
    "POST /plain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

// The status of the answer; what follows it is a request that must not be answered.
int status_before_the_end(Running& running, const std::string& request) {
  Wire wire = running.connect();
  static_cast<void>(wire.send(request + get("/health")));  // a refusal may come before all is sent
  const auto answer = wire.answer();
  if (!answer) return 0;
  EXPECT_FALSE(wire.answer()) << "another request was seen behind:\n" << request;
  return answer->status;
}

TEST(Framing, RefusesLengthsThatAreNone) {
  Running running;
  for (const char* length : {"+2", "-2", "0x2", "2,2", "2, 2", "2 2", "", "two", "2.0", "99999999999999999999",
                             "18446744073709551616", "2;", "\t"}) {
    EXPECT_EQ(status_before_the_end(running, kHead + "Content-Length: " + length + "\r\n\r\n{}"), 400) << length;
  }
  for (const char* two : {"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
                          "Content-Length: 0\r\nContent-Length: 2\r\n\r\n{}",
                          "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"}) {
    EXPECT_EQ(status_before_the_end(running, kHead + two), 400) << two;
  }
  EXPECT_EQ(running.stub().submitted(), 0);
}

TEST(Framing, RefusesEncodingsItDoesNotKnow) {
  Running running;
  for (const char* encoding : {"gzip", "identity", "gzip, chunked", "chunked, gzip", "chunked, chunked", "x", "",
                               "chunkedx", "\"chunked\""}) {
    EXPECT_EQ(status_before_the_end(
        running, kHead + "Transfer-Encoding: " + encoding + "\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 501) << encoding;
  }
  EXPECT_EQ(status_before_the_end(
      running, kHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 400);
  // Chunks are of HTTP/1.1.
  EXPECT_EQ(status_before_the_end(running, "POST /plain HTTP/1.0\r\nContent-Type: application/json\r\n"
                                           "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 501);
  EXPECT_EQ(running.stub().submitted(), 0);
}

TEST(Framing, ReadsChunksAsTheyAreWritten) {
  Running running;
  const std::string head = kHead + "Transfer-Encoding: Chunked\r\n\r\n";
  for (const char* chunks : {"2\r\n{}\r\n0\r\n\r\n", "1\r\n{\r\n1\r\n}\r\n00\r\n\r\n",
                             "02;a=b;c=\"d\"\r\n{}\r\n0\r\n\r\n",
                             "2\r\n{}\r\n0\r\nX: y\r\nHost: evil\r\nAuthorization: Bearer x\r\n\r\n"}) {
    Wire wire = running.connect();
    ASSERT_TRUE(wire.send(head + chunks + get("/health")));
    const auto first = wire.answer(), second = wire.answer();
    ASSERT_TRUE(first && second) << chunks;
    EXPECT_EQ(first->status, 200) << chunks;
    EXPECT_EQ(second->body, "{\"status\":\"ok\"}\n");
  }
  const int64_t taken = running.stub().submitted();
  for (const char* chunks : {"g\r\n{}\r\n0\r\n\r\n", "\r\n2\r\n{}\r\n0\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n",
                             "+2\r\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "2\r\n{} \r\n0\r\n\r\n",
                             "3\r\n{}\r\n0\r\n\r\n",
                             "10000000000000002\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\nbad trailer\r\n\r\n"}) {
    EXPECT_EQ(status_before_the_end(running, head + chunks), 400) << chunks;
  }
  EXPECT_EQ(running.stub().submitted(), taken);
}

// Chunks of one byte, extensions and trailers cost their sender more than the server, and have an end.
TEST(Framing, BoundsWhatSurroundsABody) {
  ServerOptions options;
  options.access.max_body_bytes = 1 << 20;
  Running running({}, options);
  const std::string head = kHead + "Transfer-Encoding: chunked\r\n\r\n";
  const auto refused = [&](const std::string& request) {
    Wire wire = running.connect();
    static_cast<void>(wire.send(request));
    const auto answer = wire.answer();
    return !answer || answer->status == 400 || answer->status == 413 || answer->status == 431;
  };
  EXPECT_TRUE(refused(head + "2;" + std::string(8 << 20, 'x')));
  std::string trailers = head + "2\r\n{}\r\n0\r\n";
  for (int i = 0; i < 200'000; i++) trailers += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_TRUE(refused(trailers));
  EXPECT_EQ(running.stub().submitted(), 0);
  std::string bytes = head;
  for (const char byte : std::string("{") + std::string(5000, ' ') + "}") bytes += std::string("1\r\n") + byte + "\r\n";
  EXPECT_EQ(running.ask(bytes + "0\r\n\r\n").status, 200);
}

// P11: half a body begins nothing, whichever way its end is told.
TEST(Framing, HalfABodyBeginsNothing) {
  Running running;
  const std::string chunked = "Transfer-Encoding: chunked\r\n\r\n";
  for (const std::string& begun : {std::string("Content-Length: 12\r\n\r\n{\"tokens\""),
                                   chunked + "c\r\n{\"tokens\"", chunked + "2\r\n{}\r\n", chunked + "2\r\n{}"}) {
    for (const bool resets : {false, true}) {
      Wire wire = running.connect();
      ASSERT_TRUE(wire.send(kHead + begun));
      if (resets) {
        wire.reset();
      } else {
        wire.close();
      }
    }
  }
  EXPECT_TRUE(soon([&] { return running.server->connections() == 0; }));
  EXPECT_EQ(running.stub().submitted(), 0);
}

}  // namespace
}  // namespace strata::server
