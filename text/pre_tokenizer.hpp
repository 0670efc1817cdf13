// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces ("words") across whose borders tokens never merge.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_pattern.hpp"

namespace troupe {

// What becomes of a match, as Hugging Face names it.
enum class SplitBehavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

struct SplitStep {
  TextPattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what doesn't match is what is split off
};

// Puts a space in front of every piece that has none.
struct PrefixSpaceStep {};

// Spaces become `replacement`; one is put in front, too.
struct MetaspaceStep {
  enum class Prepend { kAlways, kNever, kFirst };
  std::string replacement;
  Prepend prepend = Prepend::kAlways;  // kFirst: only at the beginning of the whole text
  bool split = true;                   // cut before each replacement
};

using PreTokenizerStep = std::variant<SplitStep, PrefixSpaceStep, MetaspaceStep>;

// Pieces of a text, and that text where a step had to change it.
struct TextPieces {
  std::string_view text;
  std::string storage;
  std::vector<TextRange> ranges;  // of `text`, in order, never empty
};

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // `text` is valid UTF-8 and must outlive the pieces.
  void cut(std::string_view text, bool is_beginning, PatternScratch& scratch, TextPieces& pieces) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace troupe
