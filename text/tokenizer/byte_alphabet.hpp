// SPDX-License-Identifier: Apache-2.0
// Byte-level vocabularies spell each byte as one printable character (GPT-2's
// alphabet: a space is "Ġ").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// nullopt where a character is not of the alphabet.
std::optional<std::string> bytes_from_alphabet(std::string_view spelled);
std::string bytes_to_alphabet(std::string_view bytes);

}  // namespace troupe
