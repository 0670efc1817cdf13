// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace troupe {

// "AMD EPYC 9654", or "unknown processor".
std::string cpu_name();

}  // namespace troupe
