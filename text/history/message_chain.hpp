// SPDX-License-Identifier: Apache-2.0
// Keys by which the beginning of a chat is known again: one behind each message, of it
// and all before it. A key only leads to a candidate, whose text is compared. So
// white space that clients change at the ends of an answer does not count, nor does
// any in the arguments of a call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/chat_message.hpp"

namespace troupe {

// About the speed of memory; the same in every process on machines of one byte order.
std::uint64_t chain_key(std::string_view text, std::uint64_t before);
std::uint64_t chain_key(const ChatMessage& message, std::uint64_t before);

// By message. `seed`: of everything else that the prompt depends on.
std::vector<std::uint64_t> chain_keys(std::span<const ChatMessage> messages, std::uint64_t seed);

}  // namespace troupe
