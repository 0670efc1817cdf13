// SPDX-License-Identifier: Apache-2.0
// Changes that a tokenizer makes to text before it cuts it: Unicode normal forms,
// replacements, a prefix, BERT's cleaning,
// sentencepiece's map.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/tokenizer/normalizer/bert_normalizer.hpp"
#include "text/tokenizer/normalizer/precompiled_map.hpp"
#include "text/tokenizer/normalizer/unicode_form.hpp"
#include "text/tokenizer/text_pattern.hpp"

namespace troupe {

struct PrependStep {
  std::string prefix;
};

struct ReplaceStep {
  TextPattern pattern;
  std::string content;
};

struct LowercaseStep {};
struct StripMarksStep {};
struct StripSpacesStep {
  bool left = true, right = true;
};
using PrecompiledStep = std::shared_ptr<const PrecompiledMap>;

using NormalizerStep = std::variant<UnicodeForm, PrependStep, ReplaceStep, BertNormalizerStep, LowercaseStep,
                                    StripMarksStep, StripSpacesStep, PrecompiledStep>;

class Normalizer {
 public:
  // No text may grow beyond this.
  static constexpr std::size_t kOutputsAnInput = 4;
  static constexpr std::size_t kFreeOutputBytes = 64 * 1024;

  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool is_identity() const { return steps_.empty(); }
  // `text` is valid UTF-8; so is the result. Throws EncodingStopped, also where a
  // step makes more than kOutputsAnInput x text + kFreeOutputBytes.
  std::string apply(std::string_view text, PatternScratch& scratch, EncodingBudget& budget) const;

  // How many bytes of a text become one byte at most; kUnlimited: any number.
  std::size_t max_shrinkage() const;

  // Throws EncodingStopped where the steps blow up short texts that they are made
  // for: no text of a user could be encoded.
  void probe() const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace troupe
