// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces ("words") across whose borders tokens never merge.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/tokenizer/text_pattern.hpp"

namespace troupe {

// The fate of a match, as Hugging Face names it.
enum class SplitBehavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

struct SplitStep {
  TextPattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // text that doesn't match is split off
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

// BERT's words: without the white space between them, each punctuation character
// by itself.
struct BertWordsStep {};

// Bytes become the characters that byte-level vocabularies spell them with, and bytes again: steps between
// these see words as such a vocabulary has them.
struct SpellBytesStep {};
struct ReadBytesStep {};

using PreTokenizerStep =
    std::variant<SplitStep, PrefixSpaceStep, MetaspaceStep, BertWordsStep, SpellBytesStep, ReadBytesStep>;

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps);

  // Gets each piece, in order, before the next one is looked for. Pieces are never
  // empty and last as long as the call.
  using Sink = std::function<void(std::string_view)>;

  // `text` is valid UTF-8. Keeps no list of pieces: memory is that of one piece.
  // Throws EncodingStopped.
  void cut(std::string_view text, bool is_beginning, PatternScratch& scratch, EncodingBudget& budget,
           const Sink& sink) const;

  // Some step throws text away.
  bool removes_text() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace troupe
