// SPDX-License-Identifier: Apache-2.0
// Finds the end of a request's header, byte by byte, and refuses on the way
// what no parser should have to interpret: bare CR or LF, NUL, folded lines,
// too many fields, too much of anything. Because it looks at one byte at a
// time, the answer can't depend on how the bytes were cut into packets.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/api/answers/error_response.hpp"
#include "http/limits.hpp"

namespace troupe {

class HeaderScanner {
 public:
  // The limits must outlive the scanner.
  explicit HeaderScanner(const Limits& limits) : limits_(limits) {}
  explicit HeaderScanner(Limits&&) = delete;

  // Scans on; returns how many bytes of `bytes` belong to the header. Stops at
  // its end or at the first error.
  std::size_t scan(std::string_view bytes);

  bool is_complete() const { return state_ == State::kComplete; }
  const std::optional<HttpError>& error() const { return error_; }

 private:
  //  kLineStart --\r--> kEndCr --\n--> kComplete
  //      ^  \--other--> kLine --\r--> kLineCr
  //      \------------------\n-----------/
  enum class State : std::uint8_t { kLineStart, kLine, kLineCr, kEndCr, kComplete };

  void take(char byte);
  void refuse(unsigned status, std::string_view why);

  const Limits& limits_;
  State state_ = State::kLineStart;
  std::uint64_t num_bytes_ = 0;
  std::uint64_t num_lines_ = 0;  // the request line is the first
  std::optional<HttpError> error_;
};

}  // namespace troupe
