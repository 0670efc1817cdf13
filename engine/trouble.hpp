// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// The reason for which requests are not worked on.
enum class Trouble : std::uint8_t {
  kNone,
  kReplacingDevice,  // it died or hangs; a new one takes its place, and requests go on
  kDeviceHangs,      // and is in this process, so that it can't be replaced
  kEngineHangs,      // its actors do not act, or leave the device without work
};

}  // namespace troupe
