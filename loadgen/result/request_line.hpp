// SPDX-License-Identifier: Apache-2.0
// One request of a run as one line of JSON.
#pragma once

#include <string>
#include <string_view>

#include "loadgen/result/request_record.hpp"

namespace troupe::loadgen {

// Appends the line with its line feed.
void append_request_line(std::string& out, const RequestRecord& record);

// `where` ("requests.jsonl:7") begins the text of errors (std::runtime_error).
RequestRecord parse_request_line(std::string_view line, const std::string& where);

}  // namespace troupe::loadgen
