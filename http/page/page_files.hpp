// SPDX-License-Identifier: Apache-2.0
// The files of the web page, which are part of the program: it serves them without
// reading anything at run time. cmake/embed_files.cmake writes the definitions.
#pragma once

#include <span>
#include <string_view>

namespace troupe {

struct WebFile {
  std::string_view name;  // without a folder
  std::string_view etag;  // of the contents, with its quotation marks
  std::string_view text;
};

std::span<const WebFile> page_files();

}  // namespace troupe
