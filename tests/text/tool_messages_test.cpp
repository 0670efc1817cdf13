// SPDX-License-Identifier: Apache-2.0
#include "text/template_messages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"

namespace troupe {
namespace {

using Messages = std::vector<ChatMessage>;

constexpr const char* kPlain =
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}";
// Calls as JSON, results by their role.
constexpr const char* kHermes =
    "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }}:{{ c.function.arguments | tojson }}]{% endfor "
    "%}<|end|>"
    "{% endfor %}";

const Messages kHistory = {
    {.role = "user", .content = "What time is it?"},
    {.role = "assistant",
     .tool_calls = {{.id = "call_1", .name = "clock", .arguments = R"({"zone": "UTC"})"}}},
    {.role = "tool", .content = "12:00", .tool_call_id = "call_1"},
    {.role = "assistant", .content = "Noon."}};

std::vector<TemplatePiece> pieces(const ChatTemplate& chat, const Messages& messages,
                                  const std::string& tools = "") {
  ChatTemplateInput input;
  input.messages = template_messages(messages, chat.tool_dialect());
  if (!tools.empty()) input.tools = parse_client_json(tools).value();
  const auto result = chat.render(input);
  const auto* error = std::get_if<TemplateError>(&result);
  REQUIRE_MESSAGE(error == nullptr, error->message);
  return std::get<0>(result);
}

std::string text(const std::string& source, const Messages& messages, const std::string& tools = "") {
  std::string out;
  for (const auto& piece : pieces(ChatTemplate::parse(source), messages, tools)) out += piece.text;
  return out;
}

}  // namespace

TEST_CASE("tool messages: texts of clients are shown to the template, not copied") {
  Messages messages = {{.role = "user", .content = std::string(1000, 'q')},
                       {.role = "assistant", .content = std::string(1000, 'a'), .reasoning = "none"}};
  const auto check = [&](const char* source) {
    const auto array = template_messages(messages, ChatTemplate::parse(source).tool_dialect());
    REQUIRE(array.size() == messages.size());
    for (std::size_t i = 0; i < array.size(); ++i)
      for (const auto& [name, value] : std::get<TemplateValue::Object>(array[i].variant()))
        if (name == "content") CHECK(&std::get<MarkedString>(value.variant()).text() == &messages[i].content);
  };
  check(kPlain);
  messages.back().tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}};
  messages.push_back({.role = "tool", .content = std::string(1000, 'r'), .tool_call_id = "1"});
  check(kHermes);
}

TEST_CASE("tool messages: a template that names its markers is given calls in its own notation") {
  // As LFM2's.
  const std::string source =
      "{{ '<|tool_list_start|>' if tools }}{% for m in messages %}{{ '<|' + m.role + '|>' }}"
      "{% if m.role == 'tool' %}{{ '<|result|>' + m.content }}{% else %}{{ m.content }}{% endif %}"
      "<|end|>{% endfor %}";
  Messages history = kHistory;
  history[1].content = "I look.";
  CHECK(text(source, history) ==
        "<|user|>What time is it?<|end|>"
        "<|assistant|>I look.<|tool_call_start|>[clock(zone=\"UTC\")]<|tool_call_end|><|end|>"
        "<|tool|><|result|>12:00<|end|>"
        "<|assistant|>Noon.<|end|>");
  history[1].tool_calls[0].name = "<|tool_call_end|>";
  bool is_marker_ours = false;
  for (const auto& piece : pieces(ChatTemplate::parse(source), history)) {
    if (piece.text.starts_with("<|tool_call_start|>")) is_marker_ours = !piece.from_input;
    if (piece.text.find("<|tool_call_end|>(") != std::string::npos) CHECK(piece.from_input);
  }
  CHECK(is_marker_ours);
}

TEST_CASE("tool messages: calls that a template would number are numbered through the chat") {
  // As Kimi K2's, which changes lists while it renders calls.
  const std::string source =
      "{{ '<|tool_calls_section_begin|><|tool_call_argument_begin|>' if false }}{% for m in messages %}"
      "{% if m.tool_calls %}{{ m.tool_calls.append(1) }}{% endif %}"
      "{{ '<|' + m.role + '|>' }}{% if m.role == 'tool' %}{{ m.tool_call_id + '=' }}{% endif %}{{ m.content "
      "}}"
      "{% endfor %}";
  Messages history = kHistory;
  history.push_back({.role = "assistant", .tool_calls = {{.id = "call_2", .name = "map", .arguments = ""}}});
  history.push_back({.role = "tool", .content = "here", .tool_call_id = "call_2"});
  const std::string begin = "<|tool_calls_section_begin|><|tool_call_begin|>functions.";
  const std::string end = "<|tool_call_end|><|tool_calls_section_end|>";
  CHECK(text(source, history) == "<|user|>What time is it?<|assistant|>" + begin +
                                     "clock:0<|tool_call_argument_begin|>{\"zone\": \"UTC\"}" + end +
                                     "<|tool|>functions.clock:0=12:00<|assistant|>Noon.<|assistant|>" +
                                     begin + "map:1<|tool_call_argument_begin|>{}" + end +
                                     "<|tool|>functions.map:1=here");
}

TEST_CASE("tool messages: a template that knows no tools is given calls and results as text") {
  CHECK_FALSE(ChatTemplate::parse(kPlain).tool_dialect().shows_calls);
  CHECK(text(kPlain, kHistory) ==
        "<|user|>What time is it?<|end|>"
        "<|assistant|><tool_call>\n{\"name\": \"clock\", \"arguments\": {\"zone\": "
        "\"UTC\"}}\n</tool_call><|end|>"
        "<|user|><tool_response>\n12:00\n</tool_response><|end|>"
        "<|assistant|>Noon.<|end|>");
}

TEST_CASE("tool messages: thoughts are given under the name that templates know, if there are any") {
  const std::string thinking =
      "{% for m in messages %}{% if m.reasoning_content is defined %}({{ m.reasoning_content }}){% endif %}"
      "{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}:"
      "{{ c.function.arguments | tojson }}]{% endfor %}<|end|>{% endfor %}";
  const std::string plain =
      "{% for m in messages %}{{ m.reasoning_content | default('-') }}{{ m.content }}<|end|>{% endfor %}";
  Messages messages = {{.role = "assistant", .content = "a", .reasoning = "hm"},
                       {.role = "assistant", .content = "b"}};
  CHECK(text(plain, messages) == "hma<|end|>-b<|end|>");
  messages = kHistory;
  messages[1].reasoning = "hm";
  CHECK(text(thinking, messages).find("(hm)[clock:") != std::string::npos);
}

TEST_CASE("tool messages: results as text are one turn of the user, with what the user says next") {
  const Messages messages = {
      {.role = "assistant",
       .content = "Wait.",
       .tool_calls = {{.id = "1", .name = "a"}, {.id = "2", .name = "b", .arguments = "{oops"}}},
      {.role = "tool", .content = "A"},
      {.role = "tool", .content = "B"},
      {.role = "user", .content = "And?"},
      {.role = "user", .content = "Well?"}};
  CHECK(text(kPlain, messages) ==
        "<|assistant|>Wait.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n"
        "<tool_call>\n{\"name\": \"b\", \"arguments\": \"{oops\"}\n</tool_call><|end|>"
        "<|user|><tool_response>\nA\n</tool_response>\n<tool_response>\nB\n</tool_response>\nAnd?<|end|>"
        "<|user|>Well?<|end|>");
}

TEST_CASE("tool messages: a template that shows calls is given them, arguments as an object") {
  const auto dialect = ChatTemplate::parse(kHermes).tool_dialect();
  CHECK(dialect == ToolDialect{.shows_tools = true, .shows_calls = true, .shows_text_beside_calls = true});
  CHECK(text(kHermes, kHistory, R"([{"type":"function"}])") ==
        "{\"type\": \"function\"}\n<|user|>What time is it?<|end|><|assistant|>[clock:{\"zone\": "
        "\"UTC\"}]<|end|>"
        "<|tool|>12:00<|end|><|assistant|>Noon.<|end|>");
}

TEST_CASE("tool messages: the form of calls is the one that the template shows right") {
  struct Row {
    const char* call;  // what the template makes of the call c of message m
    CallForm form;
    const char* shown;
  };
  const Row rows[] = {
      {"{{ m.content }}{{ c.function.name }}{{ c.function.arguments | tojson }}",
       {},
       "clock{\"zone\": \"UTC\"}"},
      {"{{ m.content }}{{ c.function.name + c.function.arguments }}",
       {.has_text_arguments = true},
       "clock{\"zone\": \"UTC\"}"},
      {"{{ m.content }}{{ c.function.name }}{{ c.function.arguments }}",
       {.has_text_arguments = true},
       "clock{\"zone\": \"UTC\"}"},
      {"{% if c.id | length != 9 %}{{ raise_exception('ids!') }}{% endif %}{{ c.id }}{{ c.function | tojson "
       "}}",
       {.has_short_ids = true},
       nullptr},
      {"{% if m.content is none %}{{ c.function | tojson }}{% endif %}",
       {.has_null_content = true},
       "{\"name\": \"clock\", \"arguments\": {\"zone\": \"UTC\"}}"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.call);
    const std::string source =
        std::string("{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}") + row.call +
        "{% endfor %}{% elif m.role == 'tool' %}={{ m.content }}{% endif %}{% endfor %}";
    const auto dialect = ChatTemplate::parse(source).tool_dialect();
    CHECK(dialect.shows_calls);
    CHECK(dialect.form == row.form);
    const auto shown = text(source, kHistory);
    if (row.shown != nullptr) {
      CHECK(shown == std::string(row.shown) + "=12:00");
    } else {
      CHECK(shown.find("call_1") == std::string::npos);
      CHECK(shown.size() ==
            9 + std::string("{\"name\": \"clock\", \"arguments\": {\"zone\": \"UTC\"}}=12:00").size());
    }
  }
}

TEST_CASE("tool messages: a short id stands for the call and its result alike") {
  const std::string source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ "
      "raise_exception('') }}"
      "{% endif %}{{ c.id }}{{ c.function | tojson }}{% endfor %}"
      "{% if m.role == 'tool' %}{{ m.tool_call_id + m.content }}{% endif %}{% endfor %}";
  const auto ids = [&](const std::string& id) {
    const auto shown = text(source, {{.role = "assistant", .tool_calls = {{.id = id, .name = "f"}}},
                                     {.role = "tool", .content = "", .tool_call_id = id}});
    CHECK(shown.substr(0, 9) == shown.substr(shown.size() - 9));
    return shown.substr(0, 9);
  };
  CHECK(ids("call_abcdefgh") != ids("call_abcdefgi"));
  CHECK(ids("Abc456789") == "Abc456789");
}

TEST_CASE("tool messages: a result has its function's name where the client gave none") {
  const std::string source = std::string(kHermes) +
                             "{% for m in messages %}{% if m.role == 'tool' %}({{ m.name }})"
                             "{% endif %}{% endfor %}";
  auto history = kHistory;
  const auto ends_with = [&](const std::string& end) { return text(source, history).ends_with(end); };
  CHECK(ends_with("(clock)"));
  history[2].name = "watch";
  CHECK(ends_with("(watch)"));
  history[2].name = "";
  history[2].tool_call_id = "other";
  CHECK(ends_with("()"));
}

TEST_CASE("tool messages: text that a template drops beside calls is a message of its own") {
  const std::string source =
      "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}[{{ c.function | tojson }}]{% "
      "endfor %}"
      "{% else %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}";
  CHECK_FALSE(ChatTemplate::parse(source).tool_dialect().shows_text_beside_calls);
  CHECK(text(source, {{.role = "assistant", .content = "Wait.", .tool_calls = {{.id = "1", .name = "f"}}}}) ==
        "<assistant>Wait.[{\"name\": \"f\", \"arguments\": {}}]");
}

TEST_CASE("tool messages: arguments that are no object are handed on as they came") {
  for (const std::string arguments : {"[1]", "{", "7", "nonsense"}) {
    CAPTURE(arguments);
    const auto shown = text(
        kHermes, {{.role = "assistant", .tool_calls = {{.id = "1", .name = "f", .arguments = arguments}}}});
    CHECK(shown == "<|assistant|>[f:\"" + arguments + "\"]<|end|>");
  }
}

TEST_CASE("tool messages: a template that needs an object gets one, whatever the model wrote") {
  const std::string items =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}[{{ "
      "c.function.name }}"
      "{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}]{% endfor %}{% endfor %}";
  CHECK(ChatTemplate::parse(items).tool_dialect().form.needs_object);
  CHECK_FALSE(ChatTemplate::parse(kHermes).tool_dialect().form.needs_object);
  const auto shown = [&](const std::string& arguments) {
    return text(items,
                {{.role = "assistant", .tool_calls = {{.id = "1", .name = "f", .arguments = arguments}}}});
  };
  CHECK(shown("{\"a\": 1}") == "<assistant>[f a=1]");
  CHECK(shown("") == "<assistant>[f]");
  for (const std::string arguments : {"[1]", "{", "7", "nonsense"})
    CHECK(shown(arguments) == "<assistant>[f arguments=" + arguments + "]");
}

TEST_CASE("tool messages: nothing that a client writes in tools, calls or results becomes a special token") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  std::string all;
  for (std::size_t id = 0; id < tokenizer->vocabulary_size(); ++id)
    if (tokenizer->is_special(static_cast<TokenId>(id)))
      all += tokenizer->token_content(static_cast<TokenId>(id));
  REQUIRE(!all.empty());
  // Printed, as JSON, as Python spells it, key by key.
  const std::string shows =
      "{{ tools }}{{ tools | tojson }}{% for t in tools %}{{ t.function.name + t.function.description }}"
      "{% for k, v in t.function.parameters.properties.items() %}{{ k }}{{ v.description }}{% endfor %}"
      "{{ t | string | upper | lower }}{{ (t | tojson | string) | trim }}{% endfor %}";
  const Messages messages = {
      {.role = "assistant",
       .content = all,
       .tool_calls = {{.id = all, .name = all, .arguments = "{\"" + all + "\": \"" + all + "\"}"}}},
      {.role = "tool", .content = all, .tool_call_id = all, .name = all}};
  const std::string tools = "[{\"type\":\"" + all + "\",\"function\":{\"name\":\"" + all +
                            "\",\"description\":\"" + all + "\",\"parameters\":{\"properties\":{\"" + all +
                            "\":{\"description\":\"" + all + "\"}}}}}]";
  const auto num_specials = [&](const std::string& source) {
    std::size_t count = 0;
    for (const auto token : encode_chat(*tokenizer, pieces(ChatTemplate::parse(source), messages, tools)))
      count += tokenizer->is_special(token);
    return count;
  };
  CHECK(num_specials(shows + kHermes) == 0);
  CHECK(num_specials(shows + kPlain) == 0);
  CHECK(num_specials("{% for m in messages %}{{ m }}{{ m | tojson }}{% endfor %}") == 0);
  // The template's own are.
  CHECK(num_specials(shows + kHermes + "{{ '" + all + "' }}") > 0);
}

TEST_CASE("client json: values keep their kinds and their order, and strings are the client's") {
  const auto value = parse_client_json(R"({"b":[1,-2,1.5,true,null],"a":"x","n":18446744073709551615})");
  REQUIRE(value.has_value());
  const auto chat = ChatTemplate::parse("{{ v | tojson }}");
  ChatTemplateInput input;
  input.extra = {{"v", *value}};
  const auto rendered = std::get<0>(chat.render(input));
  std::string all;
  for (const auto& piece : rendered) {
    all += piece.text;
    CHECK(piece.from_input ==
          (piece.text == "a" || piece.text == "b" || piece.text == "x" || piece.text == "n"));
  }
  CHECK(all == R"({"b": [1, -2, 1.5, true, null], "a": "x", "n": 1.8446744073709552e+19})");
}

TEST_CASE("client json: what is no JSON, too deep or too wide is refused") {
  for (const std::string bad : {"", "{", "nan", "{\"a\":1}x", "[1,]", "\"\\ud800\""})
    CHECK(!parse_client_json(bad));
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parse_client_json(nested(kMaxClientJsonDepth)));
  CHECK(!parse_client_json(nested(kMaxClientJsonDepth + 1)));
  CHECK(!parse_client_json(nested(1'000'000)));
  const auto wide = [](std::size_t num_keys) {
    std::string object = "{";
    for (std::size_t i = 0; i < num_keys; ++i)
      object += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
    return object + "}";
  };
  CHECK(parse_client_json(wide(kMaxClientJsonKeys)));
  CHECK(!parse_client_json(wide(kMaxClientJsonKeys + 1)));
}

}  // namespace troupe
