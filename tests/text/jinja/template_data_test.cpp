// SPDX-License-Identifier: Apache-2.0
// Real chat templates outside the repository. tests/fixtures/text/
// template_outputs.json holds length and FNV-1a hash of what Jinja 3.1 (with
// the settings of transformers) makes of each with each of three conversations.
#include "text/chat_template.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <ctime>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

std::string fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << hash;
  return out.str();
}

ChatTemplateInput input_from(const Json& context) {
  ChatTemplateInput input;
  input.messages = std::get<TemplateValue::Array>(template_value(context["messages"]).variant());
  input.add_generation_prompt = context["add_generation_prompt"].get<bool>();
  input.bos_token = context["bos_token"].get<std::string>();
  input.eos_token = context["eos_token"].get<std::string>();
  const std::set<std::string> known = {"messages", "add_generation_prompt", "bos_token", "eos_token"};
  for (const auto& [name, value] : context.items()) {
    if (!known.contains(name)) input.extra.emplace_back(name, template_value(value));
  }
  std::tm noon{};
  noon.tm_year = 124;
  noon.tm_mon = 8;
  noon.tm_mday = 3;
  noon.tm_hour = 12;
  input.now = std::chrono::system_clock::from_time_t(std::mktime(&noon));
  return input;
}

// Where we differ on purpose: from_json is not in Jinja, so it fails there.
// functionary adds strings to Markup, which escapes HTML in them; we don't.
const std::map<std::string, std::string> kExceptions = {
    {"deepseek-ai-DeepSeek-V3.2.jinja", "tool_use"},
    {"deepseek-ai-DeepSeek-V4.jinja", "tool_use"},
    {"meetkai-functionary-medium-v3.1.jinja", "tool_use"},
};

}  // namespace

TEST_CASE("template data: the cases render as Jinja renders them") {
  const auto path = data_dir() / "chat_templates" / "llama_cpp_cases.json";
  if (is_data_missing(path)) return;
  const Json fixture = Json::parse(file_text(path));
  for (const Json& c : fixture["cases"]) {
    CAPTURE(c["name"].get<std::string>());
    Json context = c;
    context["messages"] = fixture["messages"];
    context["add_generation_prompt"] = fixture["add_generation_prompt"];
    ChatTemplateInput input = input_from(context);
    input.extra.clear();
    const Rendered rendered = joined(ChatTemplate::parse(c["template"].get<std::string>()).render(input));
    if (c["jinja2_output"].is_null()) {
      CHECK_MESSAGE(rendered.is_error, rendered.text);
    } else {
      CHECK(rendered.text == c["jinja2_output"].get<std::string>());
    }
  }
}

TEST_CASE("template data: models' own templates render as Jinja renders them") {
  const auto directory = data_dir() / "chat_templates";
  if (is_data_missing(directory)) return;
  const Json outputs = Json::parse(file_text(fixture_dir() / "template_outputs.json"));
  std::size_t num_templates = 0;
  for (const auto& [name, expected] : outputs.items()) {
    CAPTURE(name);
    const auto path = directory / "templates" / name;
    const std::string source =
        file_text(std::filesystem::exists(path) ? path : directory / "templates_simple" / name);
    const ChatTemplate chat = ChatTemplate::parse(source);
    ++num_templates;
    for (const auto& [context, output] : expected.items()) {
      CAPTURE(context);
      const auto exception = kExceptions.find(name);
      if (exception != kExceptions.end() && exception->second == context) continue;
      const Json variables = Json::parse(file_text(directory / "minja_contexts" / (context + ".json")));
      const Rendered rendered = joined(chat.render(input_from(variables)));
      if (output.contains("error")) {
        CHECK_MESSAGE(rendered.is_error, rendered.text);
      } else {
        CHECK_FALSE_MESSAGE(rendered.is_error, rendered.text);
        CHECK(rendered.text.size() == output["bytes"].get<std::size_t>());
        CHECK(fnv1a(rendered.text) == output["fnv1a"].get<std::string>());
      }
    }
  }
  CHECK(num_templates == 73);
}

// MiroThinker's puts a namespace among the messages. It writes into tools and answers, too, which Jinja's
// sandbox refuses, so that no context of template_outputs.json is rendered.
TEST_CASE("template data: a list of messages may hold a namespace") {
  const auto path = data_dir() / "chat_templates" / "templates" / "MiroThinker.jinja";
  if (is_data_missing(path)) return;
  const ChatTemplate chat = ChatTemplate::parse(file_text(path));
  const auto check = [&](const Json& messages, std::size_t num_bytes, const std::string& hash) {
    ChatTemplateInput input;
    input.messages = std::get<TemplateValue::Array>(template_value(messages).variant());
    const Rendered rendered = joined(chat.render(std::move(input)));
    CHECK_FALSE_MESSAGE(rendered.is_error, rendered.text);
    CHECK(rendered.text.size() == num_bytes);
    CHECK(fnv1a(rendered.text) == hash);
  };
  const Json question = {{"role", "user"}, {"content", "What is 2 + 2?"}};
  check(Json::array({question}), 785, "6c1d9a284c285a1a");
  check(Json::array({{{"role", "system"}, {"content", "Be brief."}}, question}), 103, "0b242fd25fa737cb");
}

}  // namespace troupe
