// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/sse_parser.hpp"

namespace troupe::loadgen {

bool SseParser::take_line(std::string_view& bytes) {
  const auto end = bytes.find('\n');
  const auto piece = bytes.substr(0, end);
  if (line_.size() + data_.size() + piece.size() > max_event_bytes_) {
    is_too_long_ = true;
    return false;
  }
  if (end == std::string_view::npos) {
    line_ += piece;
    return false;
  }
  bytes.remove_prefix(end + 1);
  if (line_.empty()) {  // the usual case: nothing to join
    handle_line(piece);
  } else {
    line_ += piece;
    handle_line(line_);
    line_.clear();
  }
  return true;
}

void SseParser::handle_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    has_event_ = has_data_;
    if (!has_event_) forget_event();
    return;
  }
  const auto colon = line.find(':');
  const auto field = line.substr(0, colon);
  auto value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (field == "event") {
    name_ = value;
  }
}

void SseParser::forget_event() {
  name_.clear();
  data_.clear();
  has_data_ = false;
  has_event_ = false;
}

}  // namespace troupe::loadgen
