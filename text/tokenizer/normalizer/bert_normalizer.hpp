// SPDX-License-Identifier: Apache-2.0
// The normalizer of BERT's family: no controls, one kind of space, spaces around
// Chinese characters, no accents, lower case; each as its file says.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/encoding_budget.hpp"

namespace troupe {

struct BertNormalizerStep {
  bool cleans_text = true;
  bool isolates_ideographs = true;
  bool strips_accents = true;
  bool lowercases = true;
};

// `text` is valid UTF-8. Linear, as normal_form is. Throws EncodingStopped, also
// where decomposing makes more than max_bytes.
std::string bert_normalized(std::string_view text, const BertNormalizerStep& step, std::size_t max_bytes,
                            EncodingBudget& budget);

}  // namespace troupe
