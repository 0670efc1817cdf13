// SPDX-License-Identifier: Apache-2.0
// A rendered chat in one piece, and parts of it by their place.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// A part of a rendered template; neighbours differ in from_input.
struct TemplatePiece {
  std::string text;
  bool from_input = false;
  bool operator==(const TemplatePiece&) const = default;
};

struct RenderedText {
  std::string text;
  std::vector<TextRange> trusted;  // the template's own: sorted, neither overlapping nor adjacent

  // In bytes [begin, end), as offsets in this text.
  std::vector<TextRange> trusted_in(std::size_t begin, std::size_t end) const;
  bool is_trusted(TextRange range) const;
  // The template's own text begins here, behind a client's.
  bool is_border(std::size_t at) const;
};

RenderedText join_pieces(std::span<const TemplatePiece> pieces);
std::vector<TemplatePiece> pieces_of(const RenderedText& rendered);

}  // namespace troupe
