// SPDX-License-Identifier: Apache-2.0
// The trace of a request that was answered with an error before the engine saw
// it: one short span.
#pragma once

#include "actors/request/generation_request.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

// status: of the answer, >= 400; 499: the client left before there was one.
// Recorded if the trace is sampled or the error is the server's.
void record_refusal(Tracer& tracer, const RequestOrigin& origin, unsigned status);

}  // namespace troupe
