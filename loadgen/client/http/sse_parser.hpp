// SPDX-License-Identifier: Apache-2.0
// Server-sent events out of a byte stream, however it is cut into pieces. Lines
// end in LF or CRLF; comments and fields other than `event` and `data` are
// skipped. Pure: knows nothing of HTTP or of what the data mean.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::loadgen {

struct SseEvent {
  std::string_view name;  // empty if the stream gave none
  std::string_view data;  // several data lines joined by LF
};

class SseParser {
 public:
  explicit SseParser(std::size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  // Calls on_event(const SseEvent&) for each event that the bytes complete; what
  // it is given is valid during the call. False if an event is longer than
  // allowed: then the parser takes no more.
  template <class OnEvent>
  [[nodiscard]] bool feed(std::string_view bytes, OnEvent&& on_event) {
    while (!is_too_long_ && take_line(bytes)) {
      if (!has_event_) continue;
      on_event(SseEvent{.name = name_, .data = data_});
      forget_event();
    }
    return !is_too_long_;
  }

 private:
  // Moves one line out of the bytes; false if they end before the line does.
  bool take_line(std::string_view& bytes);
  void handle_line(std::string_view line);
  void forget_event();

  std::size_t max_event_bytes_;
  std::string line_;  // begin of a line whose end has not come
  std::string name_;
  std::string data_;
  bool has_data_ = false;
  bool has_event_ = false;  // the blank line that ends it has come
  bool is_too_long_ = false;
};

}  // namespace troupe::loadgen
