// A client that says exactly the bytes it is given, for tests of what servers do with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace strata::test {

struct WireAnswer {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in small letters
  std::string body;                           // of chunks, put together
  bool chunked = false;
};

class Wire {
 public:
  // `receive_buffer`: of the system, in bytes; 0: as it likes.
  explicit Wire(uint16_t port, int receive_buffer = 0);
  ~Wire() { close(); }
  Wire(Wire&& other) noexcept;
  Wire& operator=(Wire&&) = delete;

  bool connected() const { return fd_ >= 0; }
  // False when the server has closed.
  bool send(std::string_view bytes);
  void end_sending();
  void close();
  // With a reset instead of an orderly end.
  void reset();

  // The next answer; nullopt when the connection ends before it is complete, or nothing comes for half a minute.
  // `to_head`: a HEAD was asked, there is no body.
  std::optional<WireAnswer> answer(bool to_head = false);
  // Reads until `text` has come, which stays in the buffer with what came before it. False as above.
  bool wait_for(std::string_view text);
  // Whether the server ends the connection, within half a minute; what it still says is thrown away.
  bool closed_by_server();
  const std::string& buffer() const { return buffer_; }
  // From now on reads so few bytes at a time, and waits before each.
  void read_in_pieces(size_t bytes, int64_t pause_ns) {
    piece_bytes_ = bytes;
    pause_ns_ = pause_ns;
  }

 private:
  bool read_more();
  bool read_chunks(std::string& body);

  int fd_ = -1;
  std::string buffer_;
  size_t piece_bytes_ = 16 << 10;
  int64_t pause_ns_ = 0;
};

// "POST /path HTTP/1.1" with a JSON body and its length.
std::string post(std::string_view path, std::string_view body, std::string_view more_fields = "");
std::string get(std::string_view path, std::string_view more_fields = "");

}  // namespace strata::test
