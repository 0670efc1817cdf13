// SPDX-License-Identifier: Apache-2.0
// OpenTelemetry's variables for instrumentations of generative models.
#pragma once

#include "telemetry/tracing/otlp_environment.hpp"

namespace troupe {

// OTEL_SEMCONV_STABILITY_OPT_IN, a list: names that were replaced are left out where
// gen_ai_latest_experimental is in it.
bool writes_old_genai_names(const VariableReader& read);

// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: true, span_only and
// span_and_event put prompts and answers into spans; absent, false, no_content and
// event_only do not: there are no such events. Nor does anything else, which the log
// warns of.
bool captures_genai_content(const VariableReader& read);

}  // namespace troupe
