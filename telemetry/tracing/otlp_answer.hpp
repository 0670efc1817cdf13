// SPDX-License-Identifier: Apache-2.0
// The answer of a collector that took a request: ExportTraceServiceResponse, in JSON
// or protobuf. The body is a stranger's; anything malformed rejects nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

// Spans that the collector did not keep, of a request that it answered with 2xx.
std::uint64_t count_rejected_spans(std::string_view body);

}  // namespace troupe
