// SPDX-License-Identifier: Apache-2.0
// A blocking client on loopback that sees and sends raw bytes, unless a class made of
// it carries them otherwise.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

struct TestResponse {
  unsigned status = 0;
  std::string head;  // status line and fields
  std::string body;  // unchunked
  // The value of a field, any case; empty if absent.
  std::string field(std::string_view name) const;
};

class TestClient {
 public:
  explicit TestClient(std::uint16_t port, int receive_buffer_bytes = 0);
  virtual ~TestClient();
  TestClient(TestClient&& other) noexcept;
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  // False if the server does not take it.
  bool send(std::string_view bytes);
  // What there is within the time; empty at the end or when the time is up.
  std::string read_some(std::chrono::milliseconds at_most = std::chrono::seconds(10));
  // Reads until `needle` has come; everything up to the end of what was read.
  std::string read_until(std::string_view needle);
  std::string read_to_end();
  // One whole response; what follows it stays for the next call.
  TestResponse read_response();

  bool is_at_end();  // the server has closed
  void half_close();
  void reset();  // RST
  void close();

 protected:
  // How many bytes went or came; 0 or less: none ever will.
  virtual ssize_t send_some(std::string_view bytes);
  virtual ssize_t receive_some(std::span<char> bytes);
  // Something that came is not in the socket any more, but not received yet.
  virtual bool holds_some() { return false; }
  int socket() const { return socket_; }

 private:
  bool fill();

  int socket_ = -1;
  std::string buffer_;
};

std::string get_request(std::string_view target, std::string_view more_fields = {});
std::string post_request(std::string_view target, std::string_view body, std::string_view more_fields = {});
// The payloads of the data lines of an SSE body.
std::vector<std::string> sse_data(std::string_view body);

}  // namespace troupe::test
