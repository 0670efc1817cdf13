// SPDX-License-Identifier: Apache-2.0
// Formats of calls that several tests read and draw.
#pragma once

#include "text/answer/answer_format.hpp"

namespace troupe {

inline const CallFormat kQwenCoder = {.style = CallStyle::kTagged,
                                      .call_begin = "<tool_call>\n<function=",
                                      .call_end = "</function>\n</tool_call>",
                                      .name_end = ">",
                                      .key_begin = "<parameter=",
                                      .key_end = ">",
                                      .value_end = "</parameter>",
                                      .has_value_lines = true};

}  // namespace troupe
