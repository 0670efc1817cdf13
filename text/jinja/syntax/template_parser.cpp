// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/syntax/template_parser.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax/expression_parser.hpp"
#include "text/jinja/syntax/macro_names.hpp"
#include "text/jinja/syntax/template_lexer.hpp"
#include "text/jinja/syntax/token_stream.hpp"

namespace troupe::jinja {
namespace {

using Kind = Token::Kind;
using Endings = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(const std::string& source)
      : tokens_(tokenize_template(source)), expressions_(tokens_, depth_, names_) {}

  TemplateProgram run() {
    TemplateProgram program;
    program.body = parse_body({});
    return program;
  }

 private:
  // Up to a statement of one of these names, which is left to the caller; up
  // to the end where there are none.
  Body parse_body(Endings endings) {
    const ParseDepth depth(depth_, tokens_);
    Body body;
    parse_into(body, endings);
    return body;
  }

  void parse_into(Body& body, Endings endings) {
    const int first_line = tokens_.line();
    while (true) {
      const int line = tokens_.line();
      if (tokens_.is(Kind::kEnd)) {
        if (endings.size() == 0) return;
        fail_at_line(first_line, std::string(*(endings.end() - 1)) + " is missing");
      }
      for (const std::string_view ending : endings) {
        if (tokens_.is_statement(ending)) return;
      }
      if (tokens_.is(Kind::kText)) {
        body.push_back({line, Text{tokens_.next().text}});
      } else if (tokens_.is(Kind::kOutputBegin)) {
        tokens_.next();
        body.push_back({line, Output{expressions_.parse_tuple(true)}});
        tokens_.expect(Kind::kOutputEnd, "'}}'");
      } else {
        parse_statement(body);
      }
    }
  }

  void parse_statement(Body& body) {
    const int line = tokens_.line();
    tokens_.expect(Kind::kStatementBegin, "'{%'");
    const std::string name = tokens_.expect_name();
    if (name == "if") {
      body.push_back({line, parse_if()});
    } else if (name == "for") {
      body.push_back({line, parse_for()});
    } else if (name == "set") {
      body.push_back(parse_set(line));
    } else if (name == "macro") {
      body.push_back({line, parse_macro(line)});
    } else if (name == "call") {
      body.push_back({line, parse_call_block(line)});
    } else if (name == "filter") {
      std::vector<FilterUse> filters = expressions_.parse_filters();
      end_statement();
      Body inner = parse_block("endfilter");
      body.push_back({line, FilterBlock{std::move(filters), std::move(inner)}});
    } else if (name == "generation") {
      // Marks an assistant's words for training; says nothing itself.
      end_statement();
      const ParseDepth depth(depth_, tokens_);
      parse_into(body, {"endgeneration"});
      end_block("endgeneration");
    } else if (name == "break" || name == "continue") {
      if (num_loops_ == 0) fail_at_line(line, name + " outside a loop");
      end_statement();
      if (name == "break") body.push_back({line, Break{}});
      if (name == "continue") body.push_back({line, Continue{}});
    } else {
      fail_at_line(line, "unknown or unsupported statement '" + name + "'");
    }
  }

  void end_statement() { tokens_.expect(Kind::kStatementEnd, "'%}'"); }

  void end_block(std::string_view ending) {
    tokens_.expect(Kind::kStatementBegin, "'{%'");
    if (!tokens_.skip_name(ending)) tokens_.fail_expecting(ending);
    end_statement();
  }

  Body parse_block(std::string_view ending) {
    Body body = parse_body({ending});
    end_block(ending);
    return body;
  }

  If parse_if() {
    If result;
    ExpressionPtr condition = expressions_.parse_tuple(true);
    while (true) {
      end_statement();
      Body body = parse_body({"elif", "else", "endif"});
      result.branches.emplace_back(std::move(condition), std::move(body));
      if (!tokens_.is_statement("elif")) break;
      tokens_.next();
      tokens_.next();
      condition = expressions_.parse_tuple(true);
    }
    if (tokens_.is_statement("else")) {
      tokens_.next();
      tokens_.next();
      end_statement();
      result.otherwise = parse_body({"endif"});
    }
    end_block("endif");
    return result;
  }

  // "a" or "a, b", also in brackets.
  std::vector<std::string> parse_targets() {
    std::vector<std::string> targets;
    const bool has_brackets = tokens_.skip_operator("(");
    do {
      targets.push_back(tokens_.expect_name());
      names_.set(targets.back());
    } while (tokens_.skip_operator(","));
    if (has_brackets) tokens_.expect_operator(")");
    return targets;
  }

  For parse_for() {
    For loop;
    loop.targets = parse_targets();
    if (!tokens_.skip_name("in")) tokens_.fail_expecting("'in'");
    loop.iterable = expressions_.parse_tuple(false);
    if (tokens_.skip_name("if")) loop.condition = expressions_.parse();
    if (tokens_.is_name("recursive")) tokens_.fail("recursive loops are not supported");
    end_statement();
    ++num_loops_;
    loop.body = parse_body({"else", "endfor"});
    --num_loops_;
    if (tokens_.is_statement("else")) {
      tokens_.next();
      tokens_.next();
      end_statement();
      loop.otherwise = parse_body({"endfor"});
    }
    end_block("endfor");
    return loop;
  }

  Statement parse_set(int line) {
    Set set;
    set.targets = parse_targets();
    if (set.targets.size() == 1 && tokens_.skip_operator(".")) {
      set.attribute = tokens_.expect_name();
    }
    if (tokens_.skip_operator("=")) {
      set.value = expressions_.parse_tuple(true);
      end_statement();
      return {line, std::move(set)};
    }
    if (set.targets.size() != 1 || !set.attribute.empty()) tokens_.fail_expecting("'='");
    SetBlock block;
    block.target = set.targets[0];
    if (tokens_.is_operator("|")) block.filters = expressions_.parse_filters();
    end_statement();
    block.body = parse_block("endset");
    return {line, std::move(block)};
  }

  // A macro sees its arguments and the variables of the template itself; one
  // inside a loop, macro or call block would see theirs, which would have to outlive them.
  std::unique_ptr<Macro> parse_macro(int line) {
    if (num_loops_ > 0 || is_in_macro_) {
      fail_at_line(line, "a macro inside a loop, macro or call block is not supported");
    }
    auto macro = std::make_unique<Macro>();
    macro->name = tokens_.expect_name();
    parse_parameters(*macro);
    end_statement();
    parse_macro_body(*macro, "endmacro");
    return macro;
  }

  // The body sees the variables of the place where it stands.
  std::unique_ptr<CallBlock> parse_call_block(int line) {
    auto block = std::make_unique<CallBlock>();
    block->caller.name = "caller";
    if (tokens_.is_operator("(")) parse_parameters(block->caller);
    block->call = expressions_.parse();
    const auto* postfix = std::get_if<Postfix>(&block->call->node);
    const bool is_call = postfix != nullptr && std::holds_alternative<Call>(postfix->suffixes.back());
    if (!is_call) fail_at_line(line, "a call block needs a call");
    end_statement();
    parse_macro_body(block->caller, "endcall");
    return block;
  }

  void parse_parameters(Macro& macro) {
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      macro.parameters.push_back(tokens_.expect_name());
      if (tokens_.skip_operator("=")) {
        macro.defaults.push_back(expressions_.parse());
      } else if (!macro.defaults.empty()) {
        tokens_.fail("a parameter without default follows one with a default");
      }
      if (!tokens_.skip_operator(",")) break;
    }
    tokens_.expect_operator(")");
  }

  // A loop around it is none of the body's own.
  void parse_macro_body(Macro& macro, std::string_view ending) {
    const MacroNames outer_names = std::exchange(names_, MacroNames());
    const std::size_t outer_loops = std::exchange(num_loops_, 0);
    const bool was_in_macro = std::exchange(is_in_macro_, true);
    macro.body = parse_block(ending);
    is_in_macro_ = was_in_macro;
    num_loops_ = outer_loops;
    const MacroNames names = std::exchange(names_, outer_names);
    names_.add(names);
    const auto is_further = [&](const char* name) {
      return names.is_read(name) &&
             std::find(macro.parameters.begin(), macro.parameters.end(), name) == macro.parameters.end();
    };
    macro.reads_caller = is_further("caller");
    macro.reads_varargs = is_further("varargs");
    macro.reads_kwargs = is_further("kwargs");
  }

  TokenStream tokens_;
  std::size_t depth_ = 0;
  MacroNames names_;  // of the macro that is being read
  ExpressionParser expressions_;
  std::size_t num_loops_ = 0;
  bool is_in_macro_ = false;
};

}  // namespace

TemplateProgram parse_template(const std::string& source) { return StatementParser(source).run(); }

}  // namespace troupe::jinja
