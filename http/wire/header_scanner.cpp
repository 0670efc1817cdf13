// SPDX-License-Identifier: Apache-2.0
#include "http/wire/header_scanner.hpp"

namespace troupe {

std::size_t HeaderScanner::scan(std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !is_complete() && !error_) take(bytes[taken++]);
  return taken;
}

void HeaderScanner::take(char byte) {
  ++num_bytes_;
  if (num_bytes_ > limits_.max_header_bytes) return refuse(431, "the header is too long");
  if (num_lines_ == 1 && state_ == State::kLine && byte != '\r' &&
      num_bytes_ > limits_.max_request_line_bytes) {
    return refuse(414, "the request line is too long");
  }
  if (byte == '\0') return refuse(400, "the header contains NUL");
  switch (state_) {
    case State::kLineStart:
      if (byte == '\n') return refuse(400, "a line of the header ends with a bare LF");
      if (num_lines_ == 0 && (byte < 'A' || byte > 'Z')) {
        return refuse(400, "this is not an HTTP request");  // TLS, an empty line, noise
      }
      if (byte == ' ' || byte == '\t') return refuse(400, "a line of the header is folded");
      if (byte == '\r') {
        state_ = State::kEndCr;
        return;
      }
      if (++num_lines_ > limits_.max_header_fields + 1) {
        return refuse(431, "the header has too many fields");
      }
      state_ = State::kLine;
      return;
    case State::kLine:
      if (byte == '\n') return refuse(400, "a line of the header ends with a bare LF");
      if (byte == '\r') state_ = State::kLineCr;
      return;
    case State::kLineCr:
    case State::kEndCr:
      if (byte != '\n') return refuse(400, "the header contains a bare CR");
      state_ = state_ == State::kEndCr ? State::kComplete : State::kLineStart;
      return;
    case State::kComplete: return;
  }
}

void HeaderScanner::refuse(unsigned status, std::string_view why) {
  error_ = http_error(status, std::string(why));
  error_->close = true;
}

}  // namespace troupe
