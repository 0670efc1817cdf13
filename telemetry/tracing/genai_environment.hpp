// SPDX-License-Identifier: Apache-2.0
// OpenTelemetry's variables for instrumentations of generative models.
#pragma once

#include "telemetry/tracing/otlp_environment.hpp"

namespace troupe {

// OTEL_SEMCONV_STABILITY_OPT_IN, a list: names that were replaced are left out where
// gen_ai_latest_experimental is in it.
bool writes_old_genai_names(const VariableReader& read);

// Places of prompts and answers in the span of a request.
struct ContentCapture {
  bool in_attributes = false;
  bool in_event = false;  // an event of the span

  bool is_on() const { return in_attributes || in_event; }
  bool operator==(const ContentCapture&) const = default;
};

// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: true and span_only capture into attributes, event_only
// into an event, span_and_event into both; absent, false and no_content do not. Nor does anything else, which
// the log warns of.
ContentCapture genai_content_capture(const VariableReader& read);

}  // namespace troupe
