// SPDX-License-Identifier: Apache-2.0
// A string that remembers which of its bytes a client wrote. The marks follow
// the bytes through everything a chat template does to them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

class MarkedString {
 public:
  MarkedString() = default;
  explicit MarkedString(std::string text, bool is_input = false);
  // A client's text, not copied until it is changed: it must outlive this string and all copies of it.
  static MarkedString borrowed_input(const std::string& text);

  const std::string& text() const { return borrowed_ != nullptr ? *borrowed_ : text_; }
  std::string take_text() &&;
  std::size_t size() const { return text().size(); }
  bool empty() const { return text().empty(); }
  // Sorted, neither overlapping nor adjacent.
  const std::vector<TextRange>& input_ranges() const { return input_ranges_; }
  bool has_input() const { return !input_ranges_.empty(); }
  bool is_input(std::size_t position) const;

  void reserve(std::size_t num_bytes);
  void append(std::string_view text, bool is_input);
  void append(const MarkedString& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of another string.
  void append(const MarkedString& other, std::size_t begin, std::size_t end);
  MarkedString substring(std::size_t begin, std::size_t end) const;

 private:
  void own();
  void mark(std::size_t begin, std::size_t end);

  std::string text_;  // unless it is borrowed
  const std::string* borrowed_ = nullptr;
  std::vector<TextRange> input_ranges_;
};

}  // namespace troupe
