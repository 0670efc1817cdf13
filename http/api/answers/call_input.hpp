// SPDX-License-Identifier: Apache-2.0
// A call's arguments for APIs that have them as an object, not as a text. Pure.
#pragma once

#include <string>

#include "http/api/answers/answer_json.hpp"

namespace troupe {

// On one line. Arguments that are no object, since the answer was cut off or the model wrote
// something else, are the object's member INVALID_JSON, as text.
void append_call_input(AnswerJson& json, const std::string& arguments);

}  // namespace troupe
