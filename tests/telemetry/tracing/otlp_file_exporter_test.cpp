// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_file_exporter.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

std::vector<SpanTree> one_span(const std::string& name) {
  return {std::make_shared<const std::vector<Span>>(1, Span{.name = name, .context = {}})};
}

// The names of the spans, a line each; throws if a line is no JSON.
std::vector<std::string> names_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    names.push_back(nlohmann::json::parse(line)
                        .at("resourceSpans")
                        .at(0)
                        .at("scopeSpans")
                        .at(0)
                        .at("spans")
                        .at(0)
                        .at("name"));
  }
  return names;
}

TEST_CASE("trace file: a line a batch, appended to what is there") {
  const TemporaryFile file;
  for (const char* name : {"first", "second"}) {
    OtlpFileExporter exporter(file.path(), 1 << 20, {});
    CHECK(exporter.send(one_span(name), {}) == 1);
  }
  CHECK(names_in(file.path()) == std::vector<std::string>{"first", "second"});
}

TEST_CASE("trace file: half a line, left by a process that was killed, spoils no other") {
  const TemporaryFile file;
  std::ofstream(file.path()) << R"({"resourceSpans":[{"res)";
  OtlpFileExporter exporter(file.path(), 1 << 20, {});
  CHECK(exporter.send(one_span("whole"), {}) == 1);
  std::ifstream read(file.path());
  std::string half, whole;
  REQUIRE(std::getline(read, half));
  REQUIRE(std::getline(read, whole));
  CHECK(nlohmann::json::accept(whole));
}

TEST_CASE("trace file: at its limit it is renamed and begun anew; two are the most there are") {
  const TemporaryFile file;
  constexpr std::uint64_t kLimit = 2000;
  OtlpFileExporter exporter(file.path(), kLimit, {});
  for (int i = 0; i < 50; ++i) CHECK(exporter.send(one_span(std::to_string(i)), {}) == 1);
  const auto older = names_in(file.path().string() + ".1");
  const auto newer = names_in(file.path());
  REQUIRE_FALSE(newer.empty());
  CHECK(newer.back() == "49");
  CHECK(std::stoi(older.back()) + 1 == std::stoi(newer.front()));
  CHECK(std::filesystem::file_size(file.path()) < kLimit + 1000);
}

TEST_CASE("trace file: a path that can't be written is named with the reason") {
  CHECK_THROWS_WITH_AS(OtlpFileExporter("/nowhere/traces.jsonl", 1000, {}),
                       "the trace file can't be opened: /nowhere/traces.jsonl: No such file or directory",
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(OtlpFileExporter("/dev/null", 1000, {}),
                       "the trace file must be a regular file: /dev/null", std::runtime_error);
}

TEST_CASE("trace file: it is its owner's alone, also after it was begun anew") {
  const TemporaryFile file;
  const auto old_mask = ::umask(0);
  OtlpFileExporter exporter(file.path(), 1, {});
  const auto permissions = [&] { return std::filesystem::status(file.path()).permissions(); };
  constexpr auto kOwners = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  CHECK(permissions() == kOwners);
  for (int i = 0; i < 2; ++i) CHECK(exporter.send(one_span("span"), {}) == 1);
  ::umask(old_mask);
  REQUIRE(std::filesystem::exists(file.path().string() + ".1"));
  CHECK(permissions() == kOwners);
}

TEST_CASE("trace file: a symbolic link is not followed") {
  const TemporaryFile file, link;
  std::filesystem::create_symlink(file.path(), link.path());
  CHECK_THROWS_WITH_AS(OtlpFileExporter(link.path(), 1000, {}),
                       ("the trace file must not be a symbolic link: " + link.path().string()).c_str(),
                       std::runtime_error);
}

// A limit on file sizes stands for a full disk: write() fails in mid-line.
TEST_CASE("trace file: what does not fit on the disk is lost whole, no half lines") {
  const TemporaryFile file;
  OtlpFileExporter exporter(file.path(), 1 << 20, {});
  CHECK(exporter.send(one_span("fits"), {}) == 1);
  const auto size = std::filesystem::file_size(file.path());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = size + 20, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  CHECK(exporter.send(one_span("does not fit"), {}) == 0);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK(exporter.send(one_span("fits again"), {}) == 1);
  CHECK(names_in(file.path()) == std::vector<std::string>{"fits", "fits again"});
}

}  // namespace
}  // namespace troupe
