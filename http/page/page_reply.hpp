// SPDX-License-Identifier: Apache-2.0
// Answers a browser that asks for the web page. Its fields bar everything that the
// page does not need: scripts other than its own files, other hosts, frames. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "http/wire/response_writer.hpp"

namespace troupe {

// name: that of a file, or empty for the page itself. known: the request's
// If-None-Match. Nothing: there is no such file.
std::optional<Reply> page_reply(std::string_view name, std::string_view known);

}  // namespace troupe
