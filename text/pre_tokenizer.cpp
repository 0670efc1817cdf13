// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.hpp"

#include <utility>

#include "text/utf8.hpp"

namespace troupe {
namespace {

struct Cut {
  TextRange range;
  bool is_match;
};

// Matches and what lies between them: together the whole of `text`.
void find_cuts(std::string_view text, std::size_t offset, const SplitStep& step, PatternScratch& scratch,
               std::vector<Cut>& cuts) {
  const auto add = [&](std::size_t begin, std::size_t end, bool is_match) {
    if (begin < end) cuts.push_back({{offset + begin, offset + end}, is_match != step.invert});
  };
  std::size_t done = 0;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto match = step.pattern.find(text, from, scratch);
    if (!match) break;
    from = match->end;
    if (match->begin == match->end) {
      if (from == text.size()) break;
      from += next_utf8_character(text.substr(from)).num_bytes;
    }
    add(done, match->begin, false);
    add(match->begin, match->end, true);
    done = match->end;
  }
  add(done, text.size(), false);
}

void join_cuts(const std::vector<Cut>& cuts, SplitBehavior behavior, std::vector<TextRange>& ranges) {
  const std::size_t first = ranges.size();
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const bool is_match = cuts[i].is_match;
    const bool follows_match = i > 0 && cuts[i - 1].is_match;
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kIsolated: break;
      case SplitBehavior::kRemoved:
        if (is_match) continue;
        break;
      case SplitBehavior::kContiguous: join = i > 0 && is_match == follows_match; break;
      case SplitBehavior::kMergedWithPrevious: join = is_match && !follows_match; break;
      case SplitBehavior::kMergedWithNext: join = !is_match && follows_match; break;
    }
    if (join && ranges.size() > first) {
      ranges.back().end = cuts[i].range.end;
    } else {
      ranges.push_back(cuts[i].range);
    }
  }
}

void apply(const SplitStep& step, bool, PatternScratch& scratch, TextPieces& pieces) {
  const std::vector<TextRange> before = std::exchange(pieces.ranges, {});
  std::vector<Cut> cuts;
  for (const TextRange range : before) {
    cuts.clear();
    find_cuts(pieces.text.substr(range.begin, range.end - range.begin), range.begin, step, scratch, cuts);
    join_cuts(cuts, step.behavior, pieces.ranges);
  }
}

// Gives each piece new text; `rewrite` appends it.
template <class Rewrite>
void rewrite_pieces(TextPieces& pieces, Rewrite rewrite) {
  std::string storage;
  for (TextRange& range : pieces.ranges) {
    const std::size_t begin = storage.size();
    rewrite(pieces.text.substr(range.begin, range.end - range.begin), range, storage);
    range = {begin, storage.size()};
  }
  pieces.storage = std::move(storage);
  pieces.text = pieces.storage;
}

void apply(const PrefixSpaceStep&, bool, PatternScratch&, TextPieces& pieces) {
  rewrite_pieces(pieces, [](std::string_view piece, TextRange, std::string& out) {
    if (!piece.starts_with(' ')) out += ' ';
    out += piece;
  });
}

void apply(const MetaspaceStep& step, bool is_beginning, PatternScratch& scratch, TextPieces& pieces) {
  using Prepend = MetaspaceStep::Prepend;
  rewrite_pieces(pieces, [&](std::string_view piece, TextRange range, std::string& out) {
    const bool prepends = step.prepend == Prepend::kAlways ||
                          (step.prepend == Prepend::kFirst && is_beginning && range.begin == 0);
    const bool has_one = piece.starts_with(' ') || piece.starts_with(step.replacement);
    if (prepends && !has_one) out += step.replacement;
    for (const char byte : piece) {
      if (byte == ' ') {
        out += step.replacement;
      } else {
        out += byte;
      }
    }
  });
  if (!step.split) return;
  const SplitStep before_each{TextPattern::literal(step.replacement), SplitBehavior::kMergedWithNext};
  apply(before_each, is_beginning, scratch, pieces);
}

}  // namespace

void PreTokenizer::cut(std::string_view text, bool is_beginning, PatternScratch& scratch,
                       TextPieces& pieces) const {
  pieces.text = text;
  pieces.ranges.assign(1, TextRange{0, text.size()});
  for (const PreTokenizerStep& step : steps_) {
    std::visit([&](const auto& s) { apply(s, is_beginning, scratch, pieces); }, step);
  }
}

}  // namespace troupe
