// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

// Why a chat template did not render, in one sentence.
struct TemplateError {
  enum class Kind : std::uint8_t {
    kRefusal,  // the template refuses the messages (raise_exception)
    kLimit,    // there is more to do for the messages than a template may
    kFault,    // the template itself fails: no client can do anything about it
  };

  std::string message;
  Kind kind = Kind::kFault;
};

}  // namespace troupe
