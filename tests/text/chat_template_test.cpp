// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "tests/support/sanitizers.hpp"
#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"

namespace troupe {
namespace {

using Pieces = std::vector<TemplatePiece>;

constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

ChatTemplateInput one_message(const std::string& content) {
  ChatTemplateInput input;
  input.messages.push_back(chat_message("user", content));
  return input;
}

Pieces pieces(const std::string& source, const ChatTemplateInput& input) {
  const auto result = ChatTemplate::parse(source).render(input);
  const auto* error = std::get_if<TemplateError>(&result);
  REQUIRE_MESSAGE(error == nullptr, error->message);
  return std::get<Pieces>(result);
}

std::string parse_error(const std::string& source) {
  try {
    ChatTemplate::parse(source);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("chat template: content is kept apart from what the template writes") {
  CHECK(pieces(kChatMl, one_message("Hi")) ==
        Pieces{{"<|im_start|>user\n", false}, {"Hi", true}, {"<|im_end|>\n<|im_start|>assistant\n", false}});
}

TEST_CASE("chat template: the text is written to the memory that it is given, operand by operand") {
  const std::string content(2000, 'x');
  auto input = one_message(content);
  input.buffer = "of an earlier chat";
  input.buffer.reserve(100'000);
  const char* const memory = input.buffer.data();
  EncodingBudget budget;
  const auto rendered = std::get<0>(ChatTemplate::parse(kChatMl).render_text(std::move(input), budget));
  CHECK(rendered.text.data() == memory);
  CHECK(rendered.text == "<|im_start|>user\n" + content + "<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("chat template: marks follow the bytes through every operation") {
  struct Case {
    std::string expression;
    Pieces expected;
  };
  const std::vector<Case> cases = {
      {"c", {{" <|a|> ", true}}},
      {"c | trim", {{"<|a|>", true}}},
      {"c.strip() + 'x'", {{"<|a|>", true}, {"x", false}}},
      {"'x' ~ c[1:3] ~ 'y'", {{"x", false}, {"<|", true}, {"y", false}}},
      {"c | upper", {{" <|A|> ", true}}},
      {"c.split('|')[1]", {{"a", true}}},
      {"c.split('|') | join('|')", {{" <", true}, {"|", false}, {"a", true}, {"|", false}, {"> ", true}}},
      {"c.replace('a', 'b')", {{" <|", true}, {"b", false}, {"|> ", true}}},
      {"'[a]'.replace('a', c)", {{"[", false}, {" <|a|> ", true}, {"]", false}}},
      {"c | tojson", {{"\"", false}, {" <|a|> ", true}, {"\"", false}}},
      {"[c]", {{"['", false}, {" <|a|> ", true}, {"']", false}}},
      {"c | list | last", {{" ", true}}},
      {"c | reverse", {{" >|a|< ", true}}},
      {"'%s' ~ (c | default('d'))", {{"%s", false}, {" <|a|> ", true}}},
      {"c | indent(2, true)", {{"  ", false}, {" <|a|> ", true}}},
      {"(c ~ 'x') | title", {{" <|a|> ", true}, {"X", false}}},
      {"'{}!'.format(c)", {{" <|a|> ", true}, {"!", false}}},
      {"c * 2", {{" <|a|>  <|a|> ", true}}},
      {"messages[0].keys() | list | first", {{"role", true}}},
      {"messages[0].role", {{"user", false}}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.expression);
    const std::string source = "{% set c = messages[0].content %}{{ " + c.expression + " }}";
    CHECK(pieces(source, one_message(" <|a|> ")) == c.expected);
  }
}

TEST_CASE("chat template: names that a client gave to arguments stay the client's") {
  ChatTemplateInput input;
  input.extra = {{"x", TemplateValue::Object{{"<|a|>", TemplateValue::trusted("v")}}}};
  for (const std::string source : {"{% macro m() %}{{ kwargs | list | first }}{% endmacro %}{{ m(**x) }}",
                                   "{{ dict(**x) | list | first }}"}) {
    CAPTURE(source);
    CHECK(pieces(source, input) == Pieces{{"<|a|>", true}});
  }
}

TEST_CASE("chat template: the body of a call block runs within its call block alone") {
  const std::string m =
      "{% set ns = namespace() %}{% macro m() %}{% set ns.c = caller %}{{ caller() }}{% endmacro %}";
  const auto rendered = [&](const std::string& source) {
    return joined(ChatTemplate::parse(m + source).render({}));
  };
  CHECK(rendered("{% call m() %}x{% endcall %}").text == "x");
  CHECK(rendered("{% call m() %}x{% endcall %}{{ ns.c() }}").is_error);
  // The inner block is not running where the outer one's body stands.
  const std::string inner =
      "{% macro o() %}{% set f = caller %}{% call m() %}{{ f() }}{% endcall %}{% endmacro %}";
  CHECK(rendered(inner + "{% call o() %}x{% endcall %}").text == "x");
  CHECK(rendered(inner + "{% call o() %}{{ ns.c() }}{% endcall %}").is_error);
}

TEST_CASE("chat template: namespaces may hold each other, however deeply") {
  const auto rendered = [](const std::string& source) {
    return joined(ChatTemplate::parse(source).render({}));
  };
  CHECK(rendered("{% set a = namespace() %}{% set a.b = [a] %}{{ a.b[0].b | length }}{{ a.b }}").text ==
        "1[<Namespace>]");
  // A long chain is taken apart without recursion.
  const Rendered chain = rendered(
      "{% set l = namespace(first=none) %}"
      "{% for i in range(5000) %}{% set l.first = namespace(next=[[[[l.first]]]]) %}{% endfor %}"
      "{{ l.first.next[0][0][0][0].next | length }}");
  CHECK_FALSE_MESSAGE(chain.is_error, chain.text);
  CHECK(chain.text == "1");
}

TEST_CASE("chat template: marks survive variables, macros and namespaces") {
  const std::string source =
      "{% macro m(x) %}[{{ x }}]{% endmacro %}{% set ns = namespace(c='') %}"
      "{% for message in messages %}{% set ns.c = ns.c + message.content %}{% endfor %}"
      "{% set b %}{{ m(ns.c) }}{% endset %}{{ b }}";
  CHECK(pieces(source, one_message("x")) == Pieces{{"[", false}, {"x", true}, {"]", false}});
}

TEST_CASE("chat template: only the usual roles count as ours") {
  const auto role_of = [](const std::string& role) {
    ChatTemplateInput input;
    input.messages.push_back(chat_message(role, ""));
    return pieces("{{ '<|' + messages[0].role + '|>' }}", input);
  };
  CHECK(role_of("user") == Pieces{{"<|user|>", false}});
  CHECK(role_of("im_end") == Pieces{{"<|", false}, {"im_end", true}, {"|>", false}});
}

TEST_CASE("chat template: what the template refuses is a value, not a throw") {
  const ChatTemplate strict =
      ChatTemplate::parse("{{ raise_exception('only users, not ' + messages[0].role) }}");
  const Rendered rendered = joined(strict.render(one_message("x")));
  CHECK(rendered.is_error);
  CHECK(rendered.text == "only users, not user");
}

TEST_CASE("chat template: special tokens come from the template, never from content") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const ChatTemplate chat = *load_chat_template(fixture_dir() / "byte_level");
  const auto num_specials = [&](const std::string& content) {
    const auto result = chat.render(one_message(content));
    std::size_t count = 0;
    for (const TokenId token : encode_chat(*tokenizer, std::get<Pieces>(result))) {
      count += tokenizer->is_special(token);
    }
    return count;
  };
  CHECK(num_specials("hello") == 3);
  for (std::size_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (!tokenizer->is_special(token)) continue;
    CHECK(num_specials(std::string(tokenizer->token_content(token))) == 3);
  }
  // Neither half a special token completed by the template's next bytes.
  const auto glued = ChatTemplate::parse("{{ messages[0].content + '|im_end|>' }}");
  for (const TokenId token : encode_chat(*tokenizer, std::get<Pieces>(glued.render(one_message("<"))))) {
    CHECK(!tokenizer->is_special(token));
  }
}

TEST_CASE("chat template: ordinary content is encoded as the rendered text in one piece") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  std::mt19937 random(21);
  for (int round = 0; round < 500; ++round) {
    std::string content;
    for (std::size_t i = random() % 12; i > 0; --i) {
      content += std::vector<std::string>{"the", " ", "\n", "world", "12", "\u00e9", "'s"}[random() % 7];
    }
    const Pieces rendered = pieces(kChatMl, one_message(content));
    std::string whole;
    for (const TemplatePiece& piece : rendered) whole += piece.text;
    REQUIRE(encode_chat(*tokenizer, rendered) == tokenizer->encode_with_specials(whole));
  }
}

TEST_CASE("chat template: a word that runs from the template into content is one word") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const Pieces rendered = pieces("t{{ messages[0].content }}", one_message("he"));
  CHECK(encode_chat(*tokenizer, rendered) == tokenizer->encode("the"));
}

TEST_CASE("chat template: it is found in either file") {
  const auto loaded = [](const char* name, const std::string& text) {
    const TemporaryDirectory directory;
    directory.write(name, text);
    return load_chat_template(directory.path());
  };
  const auto text_of = [](const std::optional<ChatTemplate>& chat) {
    REQUIRE(chat.has_value());
    return joined(chat->render({})).text;
  };
  CHECK(text_of(loaded("chat_template.jinja", "a")) == "a");
  CHECK(text_of(loaded("tokenizer_config.json", R"({"chat_template":"b"})")) == "b");
  CHECK(text_of(loaded("tokenizer_config.json",
                       R"({"chat_template":[{"name":"tool_use","template":"x"},
                                            {"name":"default","template":"c"}]})")) == "c");
  CHECK(!loaded("tokenizer_config.json", "{}").has_value());
  CHECK(!load_chat_template(TemporaryDirectory().path()).has_value());
  CHECK_THROWS_AS(loaded("tokenizer_config.json", R"({"chat_template":[]})"), std::runtime_error);
  CHECK_THROWS_AS(loaded("tokenizer_config.json", R"({"chat_template":7})"), std::runtime_error);
  CHECK_THROWS_AS(loaded("tokenizer_config.json", "{"), std::runtime_error);
  // In words of ours, not of the JSON library.
  const auto is_named = [&](const char* entry, const char* complaint) {
    CHECK_THROWS_WITH_AS(loaded("tokenizer_config.json", R"({"chat_template":[)" + std::string(entry) + "]}"),
                         doctest::Contains(complaint), std::runtime_error);
  };
  is_named(R"({"name":7,"template":"x"})", ": chat_template: each in the list needs a string \"name\"");
  is_named(R"({"name":"default"})", ": chat_template: each in the list needs a string \"template\"");
  is_named(R"({"name":"default","template":7})", "needs a string \"template\"");
  is_named("7", ": chat_template: expected a list of objects");
  CHECK_THROWS_AS(loaded("chat_template.jinja", "{% if %}"), std::runtime_error);
}

TEST_CASE("chat template: malformed and unknown constructs are refused with their line") {
  struct Case {
    std::string source;
    std::string complaint;
  };
  const std::vector<Case> cases = {
      {"\n\n{% nope %}", "line 3: unknown or unsupported statement 'nope'"},
      {"{% include 'x' %}", "unsupported statement 'include'"},
      {"{% import 'x' as y %}", "unsupported statement 'import'"},
      {"{% extends 'x' %}", "unsupported statement 'extends'"},
      {"\n{{ x | nope }}", "line 2: unknown filter 'nope'"},
      {"{{ x is nope }}", "unknown test 'nope'"},
      {"{{ x", "a tag is not closed"},
      {"{# x", "a comment is not closed"},
      {"{{ 'x }}", "a string is not closed"},
      {"{% raw %}x", "raw is not closed"},
      {"{% if x %}", "endif is missing"},
      {"{% if x %}{% endfor %}", "unknown or unsupported statement 'endfor'"},
      {"{% for x in y %}", "endfor is missing"},
      {"{% for x y %}{% endfor %}", "expected 'in', got 'y'"},
      {"{% for x in y recursive %}{% endfor %}", "recursive loops are not supported"},
      {"{% endif %}", "unknown or unsupported statement 'endif'"},
      {"{% break %}", "break outside a loop"},
      {"{% set %}", "expected a name"},
      {"{% set x = %}", "expected an expression"},
      {"{% set x.y %}{% endset %}", "expected '='"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "a parameter without default"},
      {"{% for x in y %}{% macro m() %}{% endmacro %}{% endfor %}", "a macro inside a loop"},
      {"{{ }}", "expected an expression, got }}"},
      {"{{ 1 + }}", "expected an expression, got }}"},
      {"{{ a b }}", "expected '}}', got 'b'"},
      {"{{ (1 }}", "unexpected '}'"},
      {"{{ 1) }}", "unexpected ')'"},
      {"{{ [1, }}", "unexpected '}'"},
      {"{{ f(*x, *y) }}", "a second argument list (*)"},
      {"{{ f(*x, 2) }}", "a positional argument follows"},
      {"{{ f(**x, a=2) }}", "an argument follows **"},
      {"{{ f(**x, **y) }}", "an argument follows **"},
      {"{{ f(*) }}", "expected an expression"},
      {"{{ f(a=1, 2) }}", "a positional argument follows"},
      {"\n{% call f %}{% endcall %}", "line 2: a call block needs a call"},
      {"{% call f() | upper %}{% endcall %}", "a call block needs a call"},
      {"{% call 1 %}{% endcall %}", "a call block needs a call"},
      {"{% call(a=1, b) f() %}{% endcall %}", "a parameter without default"},
      {"{% call f() %}", "endcall is missing"},
      {"{% call f() %}{% macro m() %}{% endmacro %}{% endcall %}",
       "a macro inside a loop, macro or call block"},
      {"{% for x in y %}{% call f() %}{% break %}{% endcall %}{% endfor %}", "break outside a loop"},
      {"{{ a ? b }}", "unexpected character '?'"},
      {"{{ 99999999999999999999 }}", "too large"},
      {"{{ '\\uD800' }}", "malformed escape"},
      {"{{ x.__class__.__mro__ | attr('y') }}", "unknown filter 'attr'"},
  };
  for (const Case& c : cases) {
    const std::string error = parse_error(c.source);
    CHECK_MESSAGE(error.find(c.complaint) != std::string::npos, c.source << " gave: " << error);
    CHECK(error.find("line ") == 0);
  }
}

TEST_CASE("chat template: hostile sources are refused before they are run") {
  const std::vector<std::string> sources = {
      std::string(256 * 1024 + 1, 'x'),
      repeated("{% if 1 %}", 5500) + repeated("{% endif %}", 5500),
      "{{ " + repeated("(", 6000) + "1" + repeated(")", 6000) + " }}",
      "{{ " + repeated("[", 6000) + repeated("]", 6000) + " }}",
      "{{ " + repeated("{1:", 6000) + "1" + repeated("}", 6000) + " }}",
      "{{ " + repeated("not ", 6000) + "1 }}",
      "{{ " + repeated("-", 6000) + "1 }}",
      "{{ " + repeated("f(", 6000) + repeated(")", 6000) + " }}",
      "{{ " + repeated("1 if 1 else ", 6000) + "1 }}",
      "{{ x" + repeated("[x", 6000) + repeated("]", 6000) + " }}",
      "{% for x in y %}" + repeated("{% set a %}", 5000),
      repeated("{% call f() %}", 5000) + repeated("{% endcall %}", 5000),
  };
  for (const std::string& source : sources) {
    CAPTURE(source.substr(0, 40));
    CHECK(!parse_error(source).empty());
  }
}

TEST_CASE("chat template: long chains without nesting are fine") {
  const ChatTemplateInput input;
  CHECK(joined(ChatTemplate::parse("{{ 0" + repeated(" + 1", 20000) + " }}").render(input)).text == "20000");
  CHECK(joined(ChatTemplate::parse("{{ 'a'" + repeated(" | trim", 10000) + " }}").render(input)).text == "a");
  CHECK(joined(ChatTemplate::parse("{{ 1" + repeated(" and 1", 20000) + " }}").render(input)).text == "1");
  CHECK(joined(ChatTemplate::parse("{% if 0 %}" + repeated("{% elif 0 %}", 10000) + "{% else %}x{% endif %}")
                   .render(input))
            .text == "x");
}

TEST_CASE("chat template: hostile templates stop at a limit, soon") {
  const std::vector<std::string> sources = {
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% for i in range(1000000000) %}{% endfor %}",
      "{{ range(99999) | list * 100000 }}",
      "{% set ns = namespace(s='x') %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(1000) %}{% set ns.s = [ns.s, ns.s] %}{% "
      "endfor %}",
      "{% set ns = namespace(s=[]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% "
      "endfor %}{{ ns.s }}",
      "{% set ns = namespace(s={}) %}{% for i in range(60) %}{% set ns.s = {'a': ns.s, 'b': ns.s} "
      "%}{% endfor %}{{ ns.s | tojson }}",
      "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor "
      "%}",
      "{% macro m(x) %}{{ m([x, x]) }}{% endmacro %}{{ m(namespace()) }}",
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
      "{% macro m(f) %}{{ caller(caller) }}{% endmacro %}{% call(f) m() %}{{ f(f) }}{% endcall %}",
      "{% macro m(d) %}{{ m(dict(d, **{'k' ~ (d | length): 1})) }}{% endmacro %}{{ m({}) }}",
      "{% macro m() %}{% endmacro %}{{ m(*range(90000)) }}",
      "{% for i in range(90000) %}{{ range(*range(90000)) }}{% endfor %}",
      "{% for x in [1] %}{% set l = [loop] %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ 'x' * 1000000000 }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{{ ('x' * 60000).replace('x', 'y' * 60000) }}",
      "{{ ('x' * 60000) | replace('x', 'y' * 60000) }}",
      "{{ (('x' * 30000) | list) | join('y' * 30000) }}",
      "{{ ('y' * 30000).join(('x' * 30000) | list) }}",
      "{{ ('\\n' * 60000) | indent(1000, true, true) }}",
      "{{ ('\\n' * 60000) | indent('z' * 60000, true, true) }}",
      "{{ 'x' | indent(2000000000) }}",
      "{{ ('{}' * 1000).format('x') }}",
      "{{ 2 ** 100000 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ -9223372036854775807 - 2 }}",
      "{{ (-9223372036854775807 - 1) | abs }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ 1 % 0 }}",
      "{{ 1.5 // 0 }}",
      "{% for i in range(90000) %}{{ 'xxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
      "{% set s = 'x' * 60000 %}{% for i in range(90000) %}{% set t = s + 'y' %}{% endfor %}",
      "{% set s = 'x' * 60000 %}{% for i in range(90000) %}{% set t = s | upper %}{% endfor %}",
      "{% set l = range(9999) | list %}{% for i in range(9999) %}{{ l == l and '' }}{% endfor %}",
      "{% set l = range(9999) | list %}{% for i in range(9999) %}{{ (-1 in l) and '' }}{% endfor "
      "%}",
      "{% set l = range(90000) | list %}{{ l | unique | list | length }}",
      "{{ strftime_now('%c' * 10000) }}",
      "{{ ('[' * 10000) | from_json }}",
      "{{ [1] | tojson(indent=100000000) }}",
      "{{ 1 | round(999999999) }}",
  };
  for (const std::string& source : sources) {
    CAPTURE(source);
    const std::clock_t begin = std::clock();
    const Rendered rendered = joined(ChatTemplate::parse(source).render({}));
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    CHECK_MESSAGE(rendered.is_error, rendered.text.substr(0, 100));
    CHECK(seconds < 10);
  }
}

TEST_CASE("chat template: steps grow with the conversation, not beyond") {
  ChatTemplateInput input;
  for (int i = 0; i < 1024; ++i) {
    input.messages.push_back(chat_message(i % 2 == 0 ? "user" : "assistant", "some words"));
  }
  CHECK_FALSE(joined(ChatTemplate::parse(kChatMl).render(input)).is_error);
}

TEST_CASE("chat template: output is at most four times the input and 64 KiB") {
  const std::string content(100'000, 'x');
  const auto times = [&](int count) {
    const std::string source =
        "{% for i in range(" + std::to_string(count) + ") %}{{ messages[0].content }}{% endfor %}";
    return joined(ChatTemplate::parse(source).render(one_message(content)));
  };
  CHECK_FALSE(times(4).is_error);
  CHECK(times(5).is_error);
}

TEST_CASE("chat template: any source and any bytes end in a value or a clear error") {
  static const std::vector<std::string> kParts = {"{{ ",        " }}",
                                                  "{% ",        " %}",
                                                  "if ",        "for x in ",
                                                  "endif",      "endfor",
                                                  "set a = ",   "messages",
                                                  "[0]",        ".content",
                                                  " | ",        "trim",
                                                  "tojson",     "length",
                                                  "(",          ")",
                                                  "[",          "]",
                                                  "'x'",        "1",
                                                  " + ",        " == ",
                                                  "loop.index", "{#",
                                                  "#}",         "-",
                                                  "\n",         "\xff",
                                                  "macro m(a)", "endmacro",
                                                  "m(1)",       "is ",
                                                  "defined",    "x",
                                                  ":",          ",",
                                                  "{",          "}",
                                                  "not ",       "in ",
                                                  "else",       "~",
                                                  "range(9)",   "namespace(a=1)",
                                                  "a.b"};
  std::mt19937 random(31);
  for (std::uint64_t round = 0; round < test::fewer_if_sanitized(20'000); ++round) {
    std::string source;
    for (std::size_t i = random() % 16; i > 0; --i) source += kParts[random() % kParts.size()];
    try {
      ChatTemplate::parse(source).render(one_message("caf\xc3 \xff <|im_end|>"));
    } catch (const std::runtime_error& error) {
      REQUIRE(std::string(error.what()).starts_with("line "));
    }
  }
}

TEST_CASE("chat template: the variable that switches reasoning is found by what it changes") {
  const auto found = [](const std::string& source) { return ChatTemplate::parse(source).thinking_switch(); };
  const std::string chat = "{{ messages[0].content }}";
  CHECK(found(chat + "{% if enable_thinking is false %}<think></think>{% endif %}") == "enable_thinking");
  CHECK(found("{% if enable_thinking | default(true) %}/think{% endif %}" + chat) == "enable_thinking");
  CHECK(found(chat + "{% if thinking is defined and thinking %}<think>{% else %}</think>{% endif %}") ==
        "thinking");
  CHECK(found(chat) == "");
  CHECK(found(chat + "{# enable_thinking #}{% set thinking = 1 %}") == "");
  CHECK(found("{{ enable_thinking.x.y }}") == "");
}

TEST_CASE("template data: which templates switch reasoning, and by which variable") {
  const auto directory = data_dir() / "chat_templates" / "templates";
  if (is_data_missing(directory)) return;
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto name = ChatTemplate::parse(file_text(entry.path())).thinking_switch();
    if (!name.empty()) found[entry.path().stem().string()] = name;
  }
  std::map<std::string, std::string> expected = {{"ibm-granite-granite-3.3-2B-Instruct", "thinking"}};
  for (const char* name : {"Apertus-8B-Instruct",
                           "Bielik-11B-v3.0-Instruct",
                           "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
                           "GLM-4.6",
                           "GLM-4.7-Flash",
                           "GLM-5.2",
                           "HuggingFaceTB-SmolLM3-3B",
                           "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                           "Qwen-QwQ-32B",
                           "Qwen-Qwen3-0.6B",
                           "Qwen3.5-4B",
                           "Reka-Edge",
                           "MiroThinker",
                           "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
                           "deepseek-ai-DeepSeek-V3.1",
                           "deepseek-ai-DeepSeek-V3.2",
                           "deepseek-ai-DeepSeek-V4",
                           "google-gemma-4-31B-it",
                           "google-gemma-4-31B-it-interleaved",
                           "llama-cpp-rwkv-world"})
    expected[name] = "enable_thinking";
  CHECK(found == expected);
}

}  // namespace troupe
