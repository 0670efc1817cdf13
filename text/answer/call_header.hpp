// SPDX-License-Identifier: Apache-2.0
// The beginning of a call, up to where its arguments begin, in text that is still
// being written. Pure: the answer for a text is final once it is not kPartial,
// whatever follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/answer/answer_format.hpp"

namespace troupe {

enum class TextMatch : std::uint8_t { kNo, kPartial, kFull };

struct CallHeader {
  std::string name = {};
  std::string id = {};                        // as the model wrote it; mostly empty
  std::size_t size = 0;                       // bytes, up to the arguments or behind them
  std::size_t depth = 0;                      // kJson: objects that are open there
  bool opens_list = false;                    // kJson: a list that is closed behind its last call
  std::optional<std::string> arguments = {};  // known already
};

inline constexpr std::size_t kMaxCallHeaderBytes = 4096;
inline constexpr std::size_t kMaxCalledNameBytes = 256;

// A literal at text[at], white space in front of it aside; a run of it within the
// literal stands for any. kFull: at is behind it. An empty literal matches.
TextMatch match_literal(std::string_view text, std::size_t& at, std::string_view literal);

// text: from a marker on, or within a list from the next call on.
TextMatch match_call_header(const CallFormat& format, std::string_view text, bool is_in_list,
                            CallHeader& header);

}  // namespace troupe
