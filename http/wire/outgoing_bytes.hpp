// SPDX-License-Identifier: Apache-2.0
// Bytes on their way to one client, in order. Long answers among them are made
// in pieces, the next one when the last has left. Pure.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "http/wire/event_framer.hpp"

namespace troupe {

class OutgoingBytes {
 public:
  // Appending to it sends; valid until the next call of another method.
  std::string& tail() { return later_.empty() ? ready_ : later_.back().after; }
  void add(LongEvent event);

  // Bytes to write now; empty: everything is written. They stay until sent().
  std::string_view next();
  void sent(std::size_t num_bytes);

  bool is_empty() const { return later_.empty() && num_sent_ == ready_.size(); }
  // In memory and not sent; a long answer counts by the piece that is made.
  std::size_t num_bytes() const;
  // Gives memory back. Only while empty.
  void shrink();

 private:
  struct Later {
    LongEvent event;
    std::string after;  // bytes that follow it
  };
  void make_piece();

  std::string ready_;
  std::size_t num_sent_ = 0;  // of ready_
  std::deque<Later> later_;
};

}  // namespace troupe
