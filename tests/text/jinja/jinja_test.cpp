// SPDX-License-Identifier: Apache-2.0
// The Jinja subset against what Jinja 3.1 (sandboxed, with the settings of
// transformers) makes of the same templates: tests/fixtures/text/jinja_cases.json.
#include "text/chat_template.hpp"

#include <doctest/doctest.h>

#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"

namespace troupe {

TEST_CASE("jinja: every small template renders as Jinja renders it") {
  const auto fixture = nlohmann::ordered_json::parse(file_text(fixture_dir() / "jinja_cases.json"));
  ChatTemplateInput input;
  input.extra = template_object(fixture["variables"]);
  for (const auto& c : fixture["cases"]) {
    const auto source = c["template"].get<std::string>();
    CAPTURE(source);
    const Rendered rendered = joined(ChatTemplate::parse(source).render(input));
    if (c.contains("error")) {
      CHECK_MESSAGE(rendered.is_error, rendered.text);
    } else {
      CHECK_FALSE(rendered.is_error);
      CHECK(rendered.text == c["output"].get<std::string>());
    }
  }
}

TEST_CASE("jinja: a sum of strings keeps the client's apart, and fails at what is no string") {
  ChatTemplateInput input;
  input.extra = {{"x", TemplateValue::input("in")}};
  const auto rendered = ChatTemplate::parse("{{ '<' + x + '|' + x + '>' }}").render(input);
  const std::vector<TemplatePiece> pieces = {
      {"<", false}, {"in", true}, {"|", false}, {"in", true}, {">", false}};
  CHECK(std::get<0>(rendered) == pieces);
  CHECK(joined(ChatTemplate::parse("{{ '<' + x + 1 }}").render(input)).is_error);
}

TEST_CASE("jinja: what one turn of a loop sets is not there in the next") {
  const auto rendered = ChatTemplate::parse(
                            "{% for i in [1, 2] %}{% if i == 1 %}{% set x = 'set' %}{% endif %}"
                            "{% for j in [3, 4] %}{{ j }}{% endfor %}{{ x }},{% endfor %}{{ i }}{{ x }}")
                            .render({});
  CHECK(joined(rendered).text == "34set,34,");
}

TEST_CASE("jinja: the time is shown as asked for") {
  std::tm parts{};
  parts.tm_year = 124;
  parts.tm_mon = 8;
  parts.tm_mday = 3;
  parts.tm_hour = 12;
  ChatTemplateInput input;
  input.now = std::chrono::system_clock::from_time_t(std::mktime(&parts));
  const auto date = ChatTemplate::parse("{{ strftime_now('%d %b %Y') }}").render(input);
  CHECK(joined(date).text == "03 Sep 2024");
}

}  // namespace troupe
