// SPDX-License-Identifier: Apache-2.0
// The server around the model: ports, keys, TLS, the state directory and its store.
#pragma once

#include "app/doctor/finding.hpp"
#include "app/options/options.hpp"

namespace troupe {

Findings service_findings(const Options& options);

}  // namespace troupe
