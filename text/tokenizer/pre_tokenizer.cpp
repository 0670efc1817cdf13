// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "text/tokenizer/byte_alphabet.hpp"
#include "text/tokenizer/normalizer/bert_character.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

struct Cut {
  TextRange range;
  bool is_match;
};

// Calls add(cut) for matches and what lies between them: together the whole of `text`.
template <class Add>
void find_cuts(std::string_view text, const SplitStep& step, PatternScratch& scratch, EncodingBudget& budget,
               Add add_cut) {
  const auto add = [&](std::size_t begin, std::size_t end, bool is_match) {
    if (begin < end) add_cut(Cut{{begin, end}, is_match != step.invert});
  };
  std::string copy;
  const std::string_view readable = step.pattern.readable(text, copy, budget);
  std::size_t done = 0;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto match = step.pattern.find(readable, from, scratch, budget);
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

// Joins cuts that follow each other as a behavior says, and hands on what can't
// grow any more.
template <class Hand>
class CutJoiner {
 public:
  CutJoiner(SplitBehavior behavior, Hand hand) : behavior_(behavior), hand_(std::move(hand)) {}

  void add(const Cut& cut) {
    const bool is_joined = joins(cut.is_match);
    follows_match_ = cut.is_match;
    is_first_ = false;
    if (behavior_ == SplitBehavior::kRemoved && cut.is_match) return;
    if (is_joined && has_piece()) {
      piece_.end = cut.range.end;
    } else {
      finish();
      piece_ = cut.range;
    }
  }

  void finish() {
    if (has_piece()) hand_(std::exchange(piece_, {}));
  }

 private:
  bool has_piece() const { return piece_.begin < piece_.end; }

  bool joins(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kIsolated:
      case SplitBehavior::kRemoved: return false;
      case SplitBehavior::kContiguous: return !is_first_ && is_match == follows_match_;
      case SplitBehavior::kMergedWithPrevious: return is_match && !follows_match_;
      case SplitBehavior::kMergedWithNext: return !is_match && follows_match_;
    }
    return false;
  }

  SplitBehavior behavior_;
  Hand hand_;
  TextRange piece_;
  bool follows_match_ = false;
  bool is_first_ = true;
};

// What a character is to BERT's words.
struct BertBreak {
  enum class Kind : std::uint8_t { kNone, kSpace, kPunctuation };
  Kind kind = Kind::kNone;
  std::size_t num_bytes = 1;
};

BertBreak::Kind bert_kind(char32_t code_point) {
  if (is_bert_space(code_point)) return BertBreak::Kind::kSpace;
  return is_bert_punctuation(code_point) ? BertBreak::Kind::kPunctuation : BertBreak::Kind::kNone;
}

const std::array<BertBreak::Kind, 128> kAsciiKinds = [] {
  std::array<BertBreak::Kind, 128> kinds{};
  for (char32_t c = 0; c < kinds.size(); ++c) kinds[c] = bert_kind(c);
  return kinds;
}();

// `text` begins with a character.
BertBreak bert_break(std::string_view text) {
  const auto byte = static_cast<std::uint8_t>(text[0]);
  if (byte < kAsciiKinds.size()) return {kAsciiKinds[byte], 1};
  const Utf8Character character = next_utf8_character(text);
  return {bert_kind(character.code_point), character.num_bytes};
}

// Takes one text through all steps, piece by piece.
class Cutter {
 public:
  Cutter(const std::vector<PreTokenizerStep>& steps, bool is_beginning, PatternScratch& scratch,
         EncodingBudget& budget, const PreTokenizer::Sink& sink)
      : steps_(steps),
        is_beginning_(is_beginning),
        scratch_(scratch),
        budget_(budget),
        sink_(sink),
        num_rewritten_(steps.size()) {}

  // `begin`: where the piece lies in the text as the steps before have rewritten it.
  void take(std::size_t step, std::string_view piece, std::size_t begin) {
    if (step == steps_.size()) return sink_(piece);
    std::visit([&](const auto& s) { apply(s, step, piece, begin); }, steps_[step]);
  }

 private:
  void apply(const SplitStep& split, std::size_t step, std::string_view piece, std::size_t begin) {
    CutJoiner joiner(split.behavior, [&](TextRange range) {
      take(step + 1, piece.substr(range.begin, range.end - range.begin), begin + range.begin);
    });
    find_cuts(piece, split, scratch_, budget_, [&](const Cut& cut) { joiner.add(cut); });
    joiner.finish();
  }

  void apply(const PrefixSpaceStep&, std::size_t step, std::string_view piece, std::size_t) {
    if (piece.starts_with(' ')) return take_rewritten(step, piece);
    std::string rewritten(1, ' ');
    rewritten += piece;
    take_rewritten(step, rewritten);
  }

  void apply(const MetaspaceStep& metaspace, std::size_t step, std::string_view piece, std::size_t begin) {
    using Prepend = MetaspaceStep::Prepend;
    const bool prepends = metaspace.prepend == Prepend::kAlways ||
                          (metaspace.prepend == Prepend::kFirst && is_beginning_ && begin == 0);
    const bool has_one = piece.starts_with(' ') || piece.starts_with(metaspace.replacement);
    std::string rewritten;
    if (prepends && !has_one) rewritten += metaspace.replacement;
    for (const char byte : piece) {
      if (byte == ' ') {
        rewritten += metaspace.replacement;
      } else {
        rewritten += byte;
      }
    }
    take_rewritten(step, rewritten);
  }

  void apply(const BertWordsStep&, std::size_t step, std::string_view piece, std::size_t begin) {
    std::size_t word = 0;
    std::size_t at = 0;
    const auto take_word = [&](std::size_t first, std::size_t last) {
      if (first < last) take(step + 1, piece.substr(first, last - first), begin + first);
    };
    while (at < piece.size()) {
      const BertBreak found = bert_break(piece.substr(at));
      if (found.kind != BertBreak::Kind::kNone) {
        take_word(word, at);
        budget_.spend(at + found.num_bytes - word);
        word = at + found.num_bytes;
        if (found.kind == BertBreak::Kind::kPunctuation) take_word(at, word);
      }
      at += found.num_bytes;
    }
    take_word(word, at);
    budget_.spend(at - word);
  }

  void apply(const SpellBytesStep&, std::size_t step, std::string_view piece, std::size_t) {
    take_rewritten(step, bytes_to_alphabet(piece));
  }

  void apply(const ReadBytesStep&, std::size_t step, std::string_view piece, std::size_t) {
    take_rewritten(step, bytes_from_alphabet(piece).value_or(std::string(piece)));
  }

  void take_rewritten(std::size_t step, std::string_view piece) {
    budget_.spend(piece.size());
    take(step + 1, piece, std::exchange(num_rewritten_[step], num_rewritten_[step] + piece.size()));
  }

  const std::vector<PreTokenizerStep>& steps_;
  bool is_beginning_;
  PatternScratch& scratch_;
  EncodingBudget& budget_;
  const PreTokenizer::Sink& sink_;
  std::vector<std::size_t> num_rewritten_;  // bytes, by step
};

}  // namespace

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps) {
  for (PreTokenizerStep& step : steps) {
    steps_.push_back(std::move(step));
    const auto* metaspace = std::get_if<MetaspaceStep>(&steps_.back());
    if (metaspace == nullptr || !metaspace->split) continue;
    SplitStep before_each{TextPattern::literal(metaspace->replacement), SplitBehavior::kMergedWithNext};
    steps_.emplace_back(std::move(before_each));
  }
}

void PreTokenizer::cut(std::string_view text, bool is_beginning, PatternScratch& scratch,
                       EncodingBudget& budget, const Sink& sink) const {
  if (!text.empty()) Cutter(steps_, is_beginning, scratch, budget, sink).take(0, text, 0);
}

bool PreTokenizer::removes_text() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const PreTokenizerStep& step) {
    if (std::holds_alternative<BertWordsStep>(step)) return true;
    const auto* split = std::get_if<SplitStep>(&step);
    return split != nullptr && split->behavior == SplitBehavior::kRemoved;
  });
}

}  // namespace troupe
