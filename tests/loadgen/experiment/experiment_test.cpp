// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/experiment.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace troupe::loadgen {
namespace {

constexpr const char* kWhole = R"(
[experiment]
name = "cache"
description = "why"
paper = "Fig. 1"
expected = "better"
rates = [1, 2.5]
seeds = [7, 8]

[[server]]
name = "cache off"
flags = ["--cache-policy=none", "--model", "{root}/models/demo"]

[[server]]
name = "peer"
argv = ["/opt/peer", "--listen=127.0.0.1:{port}"]

[[server]]
name = "there already"
url = "http://127.0.0.1:9000"
arrivals = { kind = "constant" }
tells_lengths = true

[run]
warmup_s = 2

[workload]
duration_s = 10
max_conversations = 0

[[class]]
prompt_tokens = 5
)";

Experiment read(const std::string& text) {
  const TemporaryDirectory directory;
  directory.write("e.toml", text);
  return read_experiment(directory.path() / "e.toml");
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// The whole file with one part replaced.
std::string with(const std::string& part, const std::string& replacement) {
  std::string text = kWhole;
  const auto at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), replacement);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("experiment: all tables are read") {
  const auto experiment = read(kWhole);
  CHECK(experiment.name == "cache");
  CHECK(experiment.paper == "Fig. 1");
  CHECK(experiment.expected == "better");
  CHECK(experiment.loads == std::vector<double>{1, 2.5});
  CHECK_FALSE(experiment.is_by_users);
  CHECK(experiment.seeds == std::vector<std::uint64_t>{7, 8});
  REQUIRE(experiment.servers.size() == 3);
  CHECK(experiment.servers[0].argv == std::vector<std::string>{"{troupe}", "serve", "--port", "{port}",
                                                               "--cache-policy=none", "--model",
                                                               "{root}/models/demo"});
  CHECK(experiment.servers[1].argv.front() == "/opt/peer");
  CHECK(experiment.servers[2].url == "http://127.0.0.1:9000");
  CHECK_FALSE(experiment.servers[1].tells_lengths);
  CHECK(experiment.servers[2].tells_lengths);
  CHECK(experiment.options.warmup_s == 2);
  CHECK(experiment.workload.duration_s == 10);
  CHECK(experiment.workload.classes.size() == 1);
}

TEST_CASE("experiment: cells go seed by seed and load by load, servers side by side") {
  const auto cells = cells_of(read(kWhole));
  REQUIRE(cells.size() == 12);
  CHECK(cells[0].directory == "001-cache-off-1-seed7");
  CHECK(cells[1].directory == "002-peer-1-seed7");
  CHECK(cells[3].directory == "004-cache-off-2.5-seed7");
  CHECK(cells[6].directory == "007-cache-off-1-seed8");
  std::set<std::string> names;
  for (const auto& cell : cells) names.insert(cell.directory);
  CHECK(names.size() == 12);
}

TEST_CASE("experiment: a cell's workload has its load, and its server's own arrivals") {
  const auto experiment = read(kWhole);
  const auto cells = cells_of(experiment);
  CHECK(mean_rate(workload_of(experiment, cells[3]).arrivals) == doctest::Approx(2.5));
  CHECK(workload_of(experiment, cells[3]).arrivals.kind == ArrivalSettings::Kind::kPoisson);
  CHECK(workload_of(experiment, cells[5]).arrivals.kind == ArrivalSettings::Kind::kConstant);
  CHECK(mean_rate(workload_of(experiment, cells[5]).arrivals) == doctest::Approx(2.5));
}

TEST_CASE("experiment: five seeds where none are named") {
  CHECK(read(with("seeds = [7, 8]", "")).seeds == std::vector<std::uint64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("experiment: the baseline runs once more, as a server of its own, where that is asked for") {
  const auto experiment = read(with("seeds = [7, 8]", "seeds = [7]\nbaseline_again = true"));
  REQUIRE(experiment.servers.size() == 4);
  CHECK(experiment.servers[3].name == "cache off, again");
  CHECK(experiment.servers[3].argv == experiment.servers[0].argv);
  CHECK(cells_of(experiment)[3].directory == "004-cache-off--again-1-seed7");
}

TEST_CASE("experiment: users make a closed loop") {
  const auto experiment = read(with("rates = [1, 2.5]", "users = [1, 16]"));
  const auto cells = cells_of(experiment);
  CHECK(experiment.is_by_users);
  CHECK(cells[3].directory == "004-cache-off-16users-seed7");
  const auto workload = workload_of(experiment, cells[3]);
  CHECK(workload.arrivals.kind == ArrivalSettings::Kind::kClosed);
  CHECK(workload.arrivals.users == 16);
}

TEST_CASE("experiment: unknown names are refused with the nearest known one") {
  CHECK(contains(error_of(with("[run]", "[runs]")), "unknown key 'runs'; did you mean 'run'?"));
  CHECK(contains(error_of(with("paper =", "papier =")),
                 "unknown key 'experiment.papier'; did you mean 'paper'?"));
  CHECK(contains(error_of(with("flags =", "flag =")), "did you mean 'flags'?"));
  CHECK(contains(error_of(with("warmup_s", "warm_up_s")), "did you mean 'warmup_s'?"));
  CHECK(contains(error_of(with("prompt_tokens", "promt_tokens")), "did you mean 'prompt_tokens'?"));
}

TEST_CASE("experiment: what makes no sense is refused with file and line") {
  CHECK(contains(error_of(with("rates = [1, 2.5]", "")),
                 "e.toml:2: experiment: expected one of 'rates' and 'users'"));
  CHECK(contains(error_of(with("rates = [1, 2.5]", "rates = [1]\nusers = [1]")),
                 "expected one of 'rates' and 'users'"));
  CHECK(contains(error_of(with("rates = [1, 2.5]", "rates = [0]")),
                 "experiment.rates: expected numbers above 0, got 0"));
  CHECK(contains(error_of(with("rates = [1, 2.5]", "rates = [inf]")), "expected numbers above 0, got inf"));
  CHECK(contains(error_of(with("rates = [1, 2.5]", "users = [1.5]")),
                 "experiment.users: expected whole numbers from 1, got 1.5"));
  CHECK(contains(error_of(with("rates = [1, 2.5]", "rates = \"all\"")),
                 "experiment.rates: expected a list of numbers"));
  CHECK(contains(error_of(with("seeds = [7, 8]", "seeds = []")), "experiment.seeds: expected at least one"));
  CHECK(contains(error_of(with("seeds = [7, 8]", "seeds = [-1]")),
                 "experiment.seeds: expected whole numbers from 0, got -1"));
  CHECK(contains(error_of(with("duration_s = 10", "duration_s = -10")), "workload.duration_s"));
  CHECK(contains(error_of(with("{ kind = \"constant\" }", "{ kind = \"constent\" }")),
                 "arrivals.kind: expected one of"));
  CHECK(contains(error_of("[experiment"), "e.toml:1"));
  CHECK(contains(error_of(""), "expected a table [experiment]"));
  CHECK_THROWS_WITH(read_experiment("/nowhere/e.toml"), doctest::Contains("/nowhere/e.toml"));
}

TEST_CASE("experiment: a server is started or there already, and has a name of its own") {
  CHECK(contains(error_of(with("url = \"http://127.0.0.1:9000\"", "")),
                 "server[2]: expected one of 'flags', 'argv' and 'url'"));
  CHECK(contains(error_of(with("argv =", "url = \"http://x\"\nargv =")),
                 "server[1]: expected one of 'flags', 'argv' and 'url'"));
  CHECK(read(with("arrivals =", "reset = \"/flush_cache\"\narrivals =")).servers[2].reset == "/flush_cache");
  CHECK(contains(error_of(with("arrivals =", "reset = \"flush\"\narrivals =")),
                 "server[2].reset: expected a path like /reset_prefix_cache, beside 'url'"));
  CHECK(contains(error_of(with("argv =", "reset = \"/flush_cache\"\nargv =")),
                 "server[1].reset: expected a path"));
  CHECK(contains(error_of(with(":{port}", ":80")), "server[1].argv: expected {port} somewhere"));
  CHECK(contains(error_of(with("name = \"peer\"", "name = \"cache-off\"")), "'cache-off' is there already"));
  CHECK(contains(error_of(with("name = \"peer\"", "")), "server[1].name: expected a name"));
  CHECK(contains(error_of("[experiment]\nrates = [1]\n"), "expected at least one [[server]]"));
}

TEST_CASE("experiment: names of files are harmless whatever the server is called") {
  CHECK(file_name_of("../../etc/passwd") == "-..-etc-passwd");
  CHECK(file_name_of("a b/c\n\xC3\xA4") == "a-b-c---");
  CHECK(file_name_of("..") == "");
}

TEST_CASE("experiment: those that come with troupe can be read") {
  std::size_t num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TROUPE_SOURCE_DIR) /
                                                               "configs" / "experiments")) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path().string());
    const auto experiment = read_experiment(entry.path());
    CHECK(experiment.name == entry.path().stem().string());
    CHECK_FALSE(experiment.description.empty());
    CHECK_FALSE(experiment.expected.empty());
    ++num_files;
  }
  CHECK(num_files >= 6);
}

}  // namespace
}  // namespace troupe::loadgen
