// SPDX-License-Identifier: Apache-2.0
// The end of a prompt, where the last message is, as the input of another model, which encodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// At most `longest` tokens, those around a text among them; fewer than these: none. Work is bounded, however
// long the prompt is. Throws EncodingStopped.
std::vector<std::int32_t> encode_prompt_end(const Tokenizer& of_prompt, std::span<const std::int32_t> prompt,
                                            const Tokenizer& encoder, std::size_t longest);

}  // namespace troupe
