// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/genai_environment.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/observability/logged_lines.hpp"

namespace troupe {
namespace {

VariableReader with(const std::string& name, const std::string& value) {
  return [=](const std::string& asked) { return asked == name ? value : std::string(); };
}

ContentCapture captured(const std::string& value) {
  return genai_content_capture(with("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value));
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
  for (const char* off : {"", "false", "False", "no_content", "NO_CONTENT"})
    CHECK_FALSE(captured(off).is_on());
  for (const char* on : {"true", "True", "span_only"})
    CHECK(captured(on) == ContentCapture{.in_attributes = true});
  CHECK(captured("event_only") == ContentCapture{.in_event = true});
  CHECK(captured("SPAN_AND_EVENT") == ContentCapture{.in_attributes = true, .in_event = true});
}

TEST_CASE("genai environment: a value that is none of the conventions' is warned of and captures nothing") {
  for (const char* wrong : {"yes", "1"}) {
    const auto lines = test::logged_by(LogFormat::kText, [&] { CHECK_FALSE(captured(wrong).is_on()); });
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") != std::string::npos);
    CHECK(lines[0].find("value=" + std::string(wrong)) != std::string::npos);
  }
  CHECK(test::logged_by(LogFormat::kText, [] { captured("event_only"); }).empty());
}

}  // namespace
}  // namespace troupe
