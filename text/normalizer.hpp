// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text before it cuts it: Unicode normal forms,
// replacements, a prefix.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_pattern.hpp"

namespace troupe {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

struct PrependStep {
  std::string prefix;
};

struct ReplaceStep {
  TextPattern pattern;
  std::string content;
};

using NormalizerStep = std::variant<UnicodeForm, PrependStep, ReplaceStep>;

class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool is_identity() const { return steps_.empty(); }
  // `text` is valid UTF-8; so is the result.
  std::string apply(std::string_view text, PatternScratch& scratch) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace troupe
