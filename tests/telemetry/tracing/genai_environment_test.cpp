// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/genai_environment.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

namespace troupe {
namespace {

VariableReader with(const std::string& name, const std::string& value) {
  return [=](const std::string& asked) { return asked == name ? value : std::string(); };
}

bool captures(const std::string& value) {
  return captures_genai_content(with("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value));
}

bool writes_old(const std::string& value) {
  return writes_old_genai_names(with("OTEL_SEMCONV_STABILITY_OPT_IN", value));
}

TEST_CASE("genai environment: old names go where the latest alone are opted in, in a list or not") {
  CHECK(writes_old(""));
  CHECK(writes_old("http/dup"));
  CHECK(writes_old("gen_ai_latest_experimental_not"));
  CHECK_FALSE(writes_old("gen_ai_latest_experimental"));
  CHECK_FALSE(writes_old("http, gen_ai_latest_experimental ,database"));
}

TEST_CASE("genai environment: contents are captured only where a variable says so") {
  for (const char* off : {"", "false", "False", "no_content", "NO_CONTENT"}) CHECK_FALSE(captures(off));
  for (const char* on : {"true", "True", "span_only", "SPAN_AND_EVENT"}) CHECK(captures(on));
  for (const char* wrong : {"yes", "1", "event_only"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(
        captures(wrong),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: expected span_only or no_content, "
         "true or false, got '" +
         std::string(wrong) + "'")
            .c_str(),
        std::runtime_error);
  }
}

}  // namespace
}  // namespace troupe
