// SPDX-License-Identifier: Apache-2.0
// Lengths in tokens of texts that no tokenizer here has seen.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::loadgen {

// 4 tokens for 3 words, which large vocabularies need for English; at least 1
// for a text that is not empty. An estimate: the server's usage has the truth.
std::uint32_t estimated_tokens(std::string_view text);

}  // namespace troupe::loadgen
