// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JSON string, or as UTF-8: for logs and traces, where text may come
// from a client and may be anything.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

// With its quotes. Quotes, backslashes and control characters are escaped, C1
// control characters too (terminals obey them); bytes that are not UTF-8 become
// U+FFFD, one for each byte.
void append_quoted(std::string& out, std::string_view text);

// The text itself, but for bytes that are not UTF-8: each becomes U+FFFD.
std::string as_utf8(std::string_view text);

}  // namespace troupe
