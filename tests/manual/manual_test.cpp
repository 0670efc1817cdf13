// SPDX-License-Identifier: Apache-2.0
#include "manual/program_manual.hpp"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>

#include "manual/completion.hpp"
#include "manual/described_command.hpp"
#include "manual/man_page.hpp"

using namespace troupe;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ProgramManual kettle() {
  const ManualOption heat{.names = {"--heat", "-t"},
                          .value = "TEXT",
                          .help = "how hot; '[tea]' or so: 80",
                          .default_text = "tea",
                          .group = "[water]",
                          .choices = {"tea", "coffee"}};
  const ManualOption log{.names = {"--log"}, .value = "FILE", .help = ".where it goes", .group = "Options"};
  const ManualOption cup{.names = {"CUP"}, .help = "what to fill", .group = "Positionals"};
  return {
      .name = "kettle",
      .summary = "boils water",
      .version = "1.0",
      .commands = {{.name = "boil", .summary = "boil it", .options = {heat, log}},
                   {.name = "pour", .summary = "pour it", .options = {heat, cup}}},
      .sections = {{.title = "FILES", .paragraphs = {"\t/etc/kettle\tthe scale", "Others are not read."}}}};
}

}  // namespace

TEST_CASE("manual: a parser's command is described as its help shows it") {
  std::string path;
  int count = 3;
  bool is_hidden = false, is_loud = false;
  CLI::App app("boil it", "boil");
  app.add_option("--log,-l", path, "where it goes")->type_name("FILE");
  app.add_option("count", count, "how often")->capture_default_str();
  app.add_flag("--loud", is_loud, "whistle");
  app.add_flag("--hidden", is_hidden)->group("");
  const ManualCommand command = describe(app);
  CHECK(command.name == "boil");
  CHECK(command.summary == "boil it");
  REQUIRE(command.options.size() == 4);
  CHECK(command.options[0].names == std::vector<std::string>{"--help", "-h"});
  CHECK(command.options[1].names == std::vector<std::string>{"--log", "-l"});
  CHECK(command.options[1].takes_path());
  CHECK(command.options[2].names == std::vector<std::string>{"COUNT"});
  CHECK(command.options[2].default_text == "3");
  CHECK_FALSE(command.options[2].is_flag());
  CHECK(command.options[3].value.empty());
}

TEST_CASE("man page: an option of several commands is explained once and named where it comes again") {
  const std::string page = man_page(kettle());
  CHECK(page.starts_with(".TH KETTLE 1"));
  CHECK(has(page, ".SH NAME\nkettle \\- boils water\n"));
  const auto first = page.find("how hot"), pour = page.find(".SS kettle pour\nPour it.");
  REQUIRE(pour != std::string::npos);
  CHECK(first < pour);
  CHECK(page.find("how hot", first + 1) == std::string::npos);
  CHECK(has(page.substr(pour), "As above: \\fB\\-\\-heat\\fR."));
  CHECK(has(page, "In a file under \\fB[water]\\fR:"));
  CHECK(has(page, ".TP\n\\fB/etc/kettle\\fR\nthe scale\n.PP\nOthers are not read.\n"));
}

TEST_CASE("man page: text is never a request to troff") {
  const std::string page = man_page(kettle());
  CHECK(has(page, "\n\\&.where it goes\n"));
  CHECK(has(page, "how hot; \\(aq[tea]\\(aq or so: 80 (default: tea)"));
}

TEST_CASE("completion: quotes, brackets and colons of a help text are text to every shell") {
  CHECK(has(*completion_script(kettle(), "zsh"),
            "'*--heat=[how hot; '\\''\\[tea\\]'\\'' or so\\: 80]:TEXT:(tea coffee)'"));
  CHECK(has(*completion_script(kettle(), "fish"),
            " -l heat -s t -x -a 'tea coffee' -d 'how hot; '\\''[tea]'\\'' or so: 80'"));
}

TEST_CASE("completion: bash is told values where there are only some, and where a file is wanted") {
  const std::string script = *completion_script(kettle(), "bash");
  CHECK(has(script, "boil:--heat|boil:-t) words='tea coffee' ;;"));
  CHECK(has(script, "boil:--log) files=1 ;;"));
  CHECK(has(script, "pour:*) words='--heat -t' files=1 ;;"));
  CHECK(has(script, ":*) words='boil pour --help --version' ;;"));
}

TEST_CASE("completion: there is none for a shell that is not known") {
  for (const auto shell : kShells) CHECK(completion_script(kettle(), shell));
  CHECK_FALSE(completion_script(kettle(), "tcsh"));
  CHECK_FALSE(completion_script(kettle(), ""));
}
