// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/genai_environment.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "telemetry/log.hpp"

namespace troupe {

bool writes_old_genai_names(const VariableReader& read) {
  const std::string list = read("OTEL_SEMCONV_STABILITY_OPT_IN");
  for (std::string_view rest = list; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (entry == "gen_ai_latest_experimental") return false;
  }
  return true;
}

ContentCapture genai_content_capture(const VariableReader& read) {
  const std::string name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
  const std::string value = read(name);
  std::string lower = value;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower == "true" || lower == "span_only") return {.in_attributes = true};
  if (lower == "event_only") return {.in_event = true};
  if (lower == "span_and_event") return {.in_attributes = true, .in_event = true};
  if (!lower.empty() && lower != "false" && lower != "no_content")
    log(LogLevel::kWarning, "prompts and answers are not captured",
        {{"variable", name},
         {"reason", "expected span_only, event_only, span_and_event or no_content, true or false"},
         {"value", value}});
  return {};
}

}  // namespace troupe
