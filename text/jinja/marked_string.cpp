// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/marked_string.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

// The first range that ends behind `position`.
auto first_behind(const std::vector<TextRange>& ranges, std::size_t position) {
  return std::upper_bound(ranges.begin(), ranges.end(), position,
                          [](std::size_t at, const TextRange& range) { return at < range.end; });
}

}  // namespace

MarkedString::MarkedString(std::string text, bool is_input) : text_(std::move(text)) {
  if (is_input) mark(0, text_.size());
}

MarkedString MarkedString::borrowed_input(const std::string& text) {
  MarkedString string;
  string.borrowed_ = &text;
  string.mark(0, text.size());
  return string;
}

std::string MarkedString::take_text() && {
  own();
  return std::move(text_);
}

bool MarkedString::is_input(std::size_t position) const {
  const auto range = first_behind(input_ranges_, position);
  return range != input_ranges_.end() && range->begin <= position;
}

void MarkedString::reserve(std::size_t num_bytes) {
  own();
  text_.reserve(num_bytes);
}

void MarkedString::append(std::string_view text, bool is_input) {
  own();
  const std::size_t begin = text_.size();
  text_ += text;
  if (is_input) mark(begin, text_.size());
}

void MarkedString::append(const MarkedString& other, std::size_t begin, std::size_t end) {
  own();
  const std::size_t offset = text_.size();
  text_.append(other.text(), begin, end - begin);
  for (auto range = first_behind(other.input_ranges_, begin);
       range != other.input_ranges_.end() && range->begin < end; ++range) {
    mark(offset + std::max(range->begin, begin) - begin, offset + std::min(range->end, end) - begin);
  }
}

MarkedString MarkedString::substring(std::size_t begin, std::size_t end) const {
  MarkedString part;
  part.append(*this, begin, end);
  return part;
}

void MarkedString::own() {
  if (borrowed_ != nullptr) text_ = *std::exchange(borrowed_, nullptr);
}

void MarkedString::mark(std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  if (!input_ranges_.empty() && input_ranges_.back().end == begin) {
    input_ranges_.back().end = end;
  } else {
    input_ranges_.push_back({begin, end});
  }
}

}  // namespace troupe
