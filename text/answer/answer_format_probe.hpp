// SPDX-License-Identifier: Apache-2.0
// Finds how a model writes calls and reasoning: its chat template renders answers with
// known names and values, and what stands around these are the markers. A format
// counts only if a parser with it reads a rendered answer as it was meant. Where a template shows no
// calls, markers that it names tell a known format (Kimi K2, LFM2).
#pragma once

#include <string_view>

#include "text/answer/answer_format.hpp"

namespace troupe {

class ChatTemplate;

// source: the template's. Renders it a few times.
AnswerFormat probe_answer_format(const ChatTemplate& chat_template, std::string_view source);

}  // namespace troupe
