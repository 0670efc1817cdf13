// SPDX-License-Identifier: Apache-2.0
// The methods of Python's strings, for strings with marks. Positions and lengths
// are in bytes unless they are said to be in characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/marked_string.hpp"

namespace troupe::jinja {

std::size_t num_characters(std::string_view text);
// Where each character begins, and the end.
std::vector<std::size_t> character_offsets(std::string_view text);

// Without characters of `characters` (white space where there are none) at
// either or both ends.
enum class Ends { kBoth, kLeft, kRight };
MarkedString stripped(const MarkedString& string, const std::optional<std::string>& characters, Ends ends);

// At most `max_splits` cuts; negative: any number.
std::vector<MarkedString> split(const MarkedString& string, const std::string& separator,
                                std::int64_t max_splits);
std::vector<MarkedString> split_from_right(const MarkedString& string, const std::string& separator,
                                           std::int64_t max_splits);
std::vector<MarkedString> split_at_space(const MarkedString& string, std::int64_t max_splits);
std::vector<MarkedString> split_lines(const MarkedString& string, bool keeps_ends);

// `from` is not empty.
MarkedString replaced(const MarkedString& string, const std::string& from, const MarkedString& to,
                      std::int64_t max_count);

MarkedString upper(const MarkedString& string);
MarkedString lower(const MarkedString& string);
MarkedString capitalized(const MarkedString& string);
MarkedString titled(const MarkedString& string);

// True if there are characters and all are of a class.
enum class CharacterClass { kAlpha, kDigit, kAlnum, kSpace, kUpper, kLower };
bool consists_of(std::string_view text, CharacterClass wanted);

// Lines but the first (or all) begin with `prefix`; blank ones only on demand.
MarkedString indented(const MarkedString& string, const MarkedString& prefix, bool indents_first,
                      bool indents_blank);

}  // namespace troupe::jinja
