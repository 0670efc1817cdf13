// SPDX-License-Identifier: Apache-2.0
// Unicode normal forms, in time linear in the text but for sorting its runs of
// combining marks: O(k log k) for a run of k.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/encoding_budget.hpp"

namespace troupe {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` is valid UTF-8. Throws EncodingStopped, also where the result has more
// than max_bytes.
std::string normal_form(std::string_view text, UnicodeForm form, std::size_t max_bytes,
                        EncodingBudget& budget);

}  // namespace troupe
