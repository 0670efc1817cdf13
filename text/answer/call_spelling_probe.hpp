// SPDX-License-Identifier: Apache-2.0
// Finds how a chat template spells calls of a known format: reads rendered calls marker by marker,
// and notes what stands between.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/answer/answer_format.hpp"
#include "text/answer/call_spelling.hpp"

namespace troupe {

// Arguments of one probe, spelled with these separators.
std::string spelled_probe_arguments(const JsonSeparators& separators);

// Renderings of answers, all behind the same question. Calls have the names first_name and
// second_name and arguments by the names probe_key and number_key; see answer_format_probe.cpp.
struct SpelledCalls {
  std::string_view first_name, second_name;
  std::string one;                // the first call
  std::string two;                // both; empty: not known
  std::string without_arguments;  // the first, with {}
  std::string nested;             // the first, with spelled_probe_arguments()
  std::string prompt;             // the question alone, with the prompt of an answer; empty: not known
  std::size_t answer_begin = 0;   // in one, two and without_arguments
  bool has_text_arguments = false;
};

// nullopt: something else than white space stands there, or the same is not written the same way twice.
std::optional<CallSpelling> spelling_of(const CallFormat& format, const SpelledCalls& calls);

}  // namespace troupe
