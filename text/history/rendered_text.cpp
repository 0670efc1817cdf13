// SPDX-License-Identifier: Apache-2.0
#include "text/history/rendered_text.hpp"

#include <algorithm>

namespace troupe {
namespace {

// The first range that ends behind `at`.
auto first_behind(const std::vector<TextRange>& ranges, std::size_t at) {
  return std::upper_bound(ranges.begin(), ranges.end(), at,
                          [](std::size_t place, const TextRange& range) { return place < range.end; });
}

}  // namespace

std::vector<TextRange> RenderedText::trusted_in(std::size_t begin, std::size_t end) const {
  std::vector<TextRange> ranges;
  for (auto range = first_behind(trusted, begin); range != trusted.end() && range->begin < end; ++range)
    ranges.push_back({std::max(range->begin, begin), std::min(range->end, end)});
  return ranges;
}

bool RenderedText::is_trusted(TextRange range) const {
  const auto around = first_behind(trusted, range.begin);
  return around != trusted.end() && around->begin <= range.begin && range.end <= around->end;
}

bool RenderedText::is_border(std::size_t at) const {
  const auto behind = first_behind(trusted, at);
  return behind != trusted.end() && behind->begin == at;
}

RenderedText join_pieces(std::span<const TemplatePiece> pieces) {
  RenderedText out;
  std::size_t num_bytes = 0;
  for (const auto& piece : pieces) num_bytes += piece.text.size();
  out.text.reserve(num_bytes);
  for (const auto& piece : pieces) {
    const auto begin = out.text.size();
    out.text += piece.text;
    if (piece.from_input || piece.text.empty()) continue;
    if (!out.trusted.empty() && out.trusted.back().end == begin) {
      out.trusted.back().end = out.text.size();
    } else {
      out.trusted.push_back({begin, out.text.size()});
    }
  }
  return out;
}

std::vector<TemplatePiece> pieces_of(const RenderedText& rendered) {
  std::vector<TemplatePiece> pieces;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, bool from_input) {
    if (begin < end) pieces.push_back({rendered.text.substr(begin, end - begin), from_input});
    begin = end;
  };
  for (const TextRange& range : rendered.trusted) {
    add(range.begin, true);
    add(range.end, false);
  }
  add(rendered.text.size(), true);
  return pieces;
}

}  // namespace troupe
