// Goal: what is sent has the form that clients read, and no value of it can become a line of its own.
#include "server/http/message.h"

#include <gtest/gtest.h>

#include "server/http/outbox.h"

namespace strata::server::http {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(AnswerHead, SaysWhatFollows) {
  const Answer answer{.status = 404, .body = "12345", .fields = {{"Allow", "GET"}}};
  const std::string head = answer_head(answer, {.keep_alive = false, .request_id = "req-7"});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\n"));
  for (const char* line : {"Content-Length: 5\r\n", "Content-Type: application/json\r\n", "Allow: GET\r\n",
                           "X-Request-Id: req-7\r\n", "Connection: close\r\n", "X-Content-Type-Options: nosniff\r\n",
                           "Cache-Control: no-store\r\n", "X-Frame-Options: DENY\r\n"}) {
    EXPECT_TRUE(has(head, line)) << line;
  }
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_FALSE(has(head, "Access-Control"));
  EXPECT_FALSE(has(answer_head({.status = 204}, {}), "\r\nContent-Length"));
}

TEST(SseEvent, HasOneLineOfDataForEachOfTheText) {
  EXPECT_EQ(sse_event("", "{\"a\":1}"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_event("ping", ""), "event: ping\ndata: \n\n");
  EXPECT_EQ(sse_event("", "a\nb\r\nc\rd\n"), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
  EXPECT_EQ(sse_comment("a\n\ndata: b"), ": a  data: b\n\n");
}

TEST(Chunk, HasItsSizeInHex) {
  EXPECT_EQ(chunk("hello"), "5\r\nhello\r\n");
  EXPECT_EQ(chunk(std::string(300, 'x')).substr(0, 5), "12c\r\n");
}

struct Woken {
  int n = 0;
  std::function<void()> wake() {
    return [this] { n++; };
  }
};

TEST(Outbox, PutsTokensTogetherThatNobodyHasTaken) {
  Woken woken;
  Outbox outbox({}, woken.wake());
  outbox.begin_stream();
  EXPECT_TRUE(has(outbox.take().bytes, "Transfer-Encoding: chunked\r\n"));
  outbox.write("ab");
  outbox.write("c");
  EXPECT_EQ(woken.n, 2);  // once for the head, once for both writes
  EXPECT_EQ(outbox.take().bytes, "3\r\nabc\r\n");
  outbox.write("d");
  outbox.end_stream();
  const Outbox::Taken last = outbox.take();
  EXPECT_TRUE(last.ended);
  EXPECT_EQ(last.bytes, "1\r\nd\r\n0\r\n\r\n");
  EXPECT_EQ(outbox.take().bytes, "");
  outbox.write("late");
  outbox.end_stream();
  outbox.answer({});
  EXPECT_EQ(outbox.take().bytes, "");
}

TEST(Outbox, EndsStreamsWithTheConnectionForOldClients) {
  Woken woken;
  Outbox outbox({.version = 10}, woken.wake());
  outbox.begin_stream();
  outbox.write("ab");
  outbox.end_stream();
  EXPECT_FALSE(outbox.keep_alive());
  const std::string bytes = outbox.take().bytes;
  EXPECT_TRUE(bytes.ends_with("\r\n\r\nab"));
  EXPECT_FALSE(has(bytes, "chunked"));
}

TEST(Outbox, IsBounded) {
  Woken woken;
  Outbox outbox({.max_pending_bytes = 10}, woken.wake());
  outbox.begin_stream();
  outbox.write("0123456789");
  EXPECT_FALSE(outbox.take().overflowed);
  outbox.write("0123456789");
  outbox.write("0");
  outbox.write("more");
  const Outbox::Taken taken = outbox.take();
  EXPECT_TRUE(taken.overflowed);
  EXPECT_EQ(taken.bytes, "");
}

TEST(Outbox, AnswersHeadWithoutTheBody) {
  Woken woken;
  Outbox outbox({.head_only = true}, woken.wake());
  outbox.answer({.body = "12345"});
  const Outbox::Taken taken = outbox.take();
  EXPECT_TRUE(taken.ended);
  EXPECT_TRUE(has(taken.bytes, "Content-Length: 5\r\n"));
  EXPECT_TRUE(taken.bytes.ends_with("\r\n\r\n"));
  EXPECT_EQ(outbox.status(), 200);
}

TEST(Outbox, ForgetsWhoHasGone) {
  Woken woken;
  Outbox outbox({}, woken.wake());
  outbox.begin_stream();
  outbox.client_gone();
  outbox.write("x");
  outbox.end_stream();
  EXPECT_EQ(outbox.take().bytes, "");
}

TEST(AuthorityText, PutsAddressesWithColonsInBrackets) {
  EXPECT_EQ(authority_text("localhost", 80), "localhost:80");
  EXPECT_EQ(authority_text("127.0.0.1", 8080), "127.0.0.1:8080");
  EXPECT_EQ(authority_text("::1", 7), "[::1]:7");
}

}  // namespace
}  // namespace strata::server::http
