// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/kernel_error.hpp"

namespace troupe::simt {

std::string text_of(const std::source_location& where) {
  const std::string path = where.file_name();
  const auto slash = path.rfind('/');
  return path.substr(slash == std::string::npos ? 0 : slash + 1) + ":" + std::to_string(where.line());
}

}  // namespace troupe::simt
