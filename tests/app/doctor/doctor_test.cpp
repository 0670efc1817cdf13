// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "app/commands.hpp"
#include "app/doctor/findings.hpp"
#include "http/server/listening_socket.hpp"
#include "store/conversation_store.hpp"
#include "store/state_directory.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kDemo = TROUPE_SOURCE_DIR "/models/demo";

Options quiet_options() {
  Options options;
  options.models = {{.dir = kDemo}};
  options.port = 0;
  options.device = "cpu";
  options.memory_bytes = 64 << 20;
  options.store_directory = "none";
  return options;
}

const Finding* find(const Findings& findings, const std::string& about, Grade grade) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.about == about && finding.grade == grade;
  });
  return found == findings.end() ? nullptr : &*found;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("doctor: threads beyond what control groups grant are warned of, with the number that fits") {
  const GrantedCpus granted{.num_cpus = 64, .num_cores = 32, .quota = 2.5};
  const Finding finding = core_finding(granted, 64);
  CHECK(finding.grade == Grade::kWarning);
  CHECK(finding.text ==
        "64 CPUs on 32 cores, of which control groups grant the time of 2.5; 64 compute threads");
  CHECK(finding.advice == "--threads 2");
  CHECK(core_finding(granted, 2).grade == Grade::kOk);
  CHECK(core_finding({.num_cpus = 64, .num_cores = 64, .quota = 0.5}, 64).advice == "--threads 1");
  CHECK(core_finding({.num_cpus = 64, .num_cores = 64, .quota = 0.5}, 1).grade == Grade::kOk);
}

TEST_CASE("doctor: two compute threads on a core, and memory of two nodes, are warned of") {
  CHECK(has(core_finding({.num_cpus = 8, .num_cores = 4}, 8).advice, "--threads 4"));
  CHECK(core_finding({.num_cpus = 8, .num_cores = 4}, 4).grade == Grade::kOk);
  CHECK(core_finding({.num_cpus = 4, .num_cores = 4}, 5).advice == "--threads 4");
  CHECK(has(core_finding({.num_cpus = 8, .num_cores = 8, .num_nodes = 2}, 8).advice, "numactl"));
}

TEST_CASE("doctor: too few open files are warned of with the line for the unit") {
  CHECK(descriptor_finding(1024, 11112).advice == "LimitNOFILE=11112 in the unit, or ulimit -Hn");
  CHECK(descriptor_finding(11112, 11112).grade == Grade::kOk);
}

TEST_CASE("doctor: a port in use is a problem that names the port and the option") {
  Options options = quiet_options();
  const ListeningSocket taken(options.host, 0, 1);
  options.metrics_port = taken.port();
  const Findings findings = service_findings(options);
  CHECK(find(findings, "port", Grade::kOk) != nullptr);
  const Finding* port = find(findings, "port", Grade::kProblem);
  REQUIRE(port != nullptr);
  CHECK(has(port->text, std::to_string(taken.port())));
  CHECK(has(port->advice, "--metrics-port"));
}

TEST_CASE("doctor: a server that would be open to the network, or has no such keys, is a problem") {
  Options options = quiet_options();
  options.host = "0.0.0.0";
  CHECK(find(service_findings(options), "API keys", Grade::kProblem) != nullptr);
  options.allow_open_network = true;
  CHECK(find(service_findings(options), "API keys", Grade::kWarning) != nullptr);
  options.api_keys_file = "/nonexistent/keys";
  const Findings findings = service_findings(options);
  REQUIRE(find(findings, "API keys", Grade::kProblem) != nullptr);
  CHECK(has(find(findings, "API keys", Grade::kProblem)->text, "/nonexistent/keys"));
  options = quiet_options();
  options.tls_key = "key.pem";
  CHECK(find(service_findings(options), "TLS", Grade::kProblem) != nullptr);
}

TEST_CASE("doctor: a state directory is looked at and not made; a damaged store is warned of and left") {
  const TemporaryDirectory place;
  Options options = quiet_options();
  options.store_directory = (place.path() / "below" / "state").string();
  CHECK(find(service_findings(options), "state", Grade::kOk) != nullptr);
  CHECK_FALSE(std::filesystem::exists(place.path() / "below"));

  const auto directory = place.path() / "kept";
  std::filesystem::create_directory(directory);
  std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
  options.store_directory = directory.string();
  CHECK(find(service_findings(options), "store", Grade::kOk) != nullptr);
  std::ofstream(directory / "conversations.sqlite") << std::string(8192, 'x');
  const Findings findings = service_findings(options);
  REQUIRE(find(findings, "store", Grade::kWarning) != nullptr);
  CHECK(std::filesystem::file_size(directory / "conversations.sqlite") == 8192);
  CHECK(std::distance(std::filesystem::directory_iterator(directory), {}) == 1);

  options.cache_disk_space = UINT64_MAX / 2;
  CHECK(find(service_findings(options), "disk", Grade::kWarning) != nullptr);
  options.store_directory = (directory / "conversations.sqlite").string();
  CHECK(find(service_findings(options), "state", Grade::kProblem) != nullptr);
}

TEST_CASE("doctor: it leaves no trace in a directory with conversations, and keeps no server from it") {
  const TemporaryDirectory place;
  const auto path = place.path() / "state";
  { const ConversationStore store(StateDirectory(path), {}); }
  Options options = quiet_options();
  options.store_directory = path.string();
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      found.insert(entry.path().filename().string());
    return found;
  };
  const auto before = names();
  const auto changed = std::filesystem::last_write_time(path);
  CHECK(find(service_findings(options), "store", Grade::kOk) != nullptr);
  CHECK(names() == before);
  CHECK(std::filesystem::last_write_time(path) == changed);  // nor was a file there for a moment

  const auto looked_at = StateDirectory::to_look_at(path);
  const StateDirectory server(path);
  CHECK_THROWS_AS(StateDirectory::to_look_at(path), StateDirectoryInUse);
  const Findings findings = service_findings(options);
  REQUIRE(find(findings, "state", Grade::kProblem) != nullptr);
  CHECK(has(find(findings, "state", Grade::kProblem)->text, "another troupe is using it"));
}

TEST_CASE("doctor: one port for two purposes is a problem, as it is at the start") {
  Options options = quiet_options();
  { options.port = ListeningSocket(options.host, 0, 1).port(); }
  options.metrics_port = options.port;
  const Findings findings = service_findings(options);
  CHECK(find(findings, "port", Grade::kOk) != nullptr);
  REQUIRE(find(findings, "port", Grade::kProblem) != nullptr);
  CHECK(has(find(findings, "port", Grade::kProblem)->advice, "--metrics-port"));
}

TEST_CASE("doctor: destinations of traces that serve would refuse are a problem, and no file is made") {
  const TemporaryDirectory place;
  Options options = quiet_options();
  CHECK(find(service_findings(options), "tracing", Grade::kOk) != nullptr);
  options.trace_endpoint = "nonsense";
  const Findings endpoint = service_findings(options);
  REQUIRE(find(endpoint, "tracing", Grade::kProblem) != nullptr);
  CHECK(has(find(endpoint, "tracing", Grade::kProblem)->text, "--trace-endpoint"));
  options.trace_endpoint = "";
  options.trace_file = (place.path() / "missing" / "spans").string();
  const Findings file = service_findings(options);
  REQUIRE(find(file, "tracing", Grade::kProblem) != nullptr);
  CHECK(has(find(file, "tracing", Grade::kProblem)->text, "No such file"));
  options.trace_file = place.path().string();
  CHECK(find(service_findings(options), "tracing", Grade::kProblem) != nullptr);
  options.trace_file = (place.path() / "spans").string();
  CHECK(find(service_findings(options), "tracing", Grade::kOk) != nullptr);
  CHECK_FALSE(std::filesystem::exists(options.trace_file));
}

TEST_CASE("doctor: a model is planned as serve plans it") {
  Options options = quiet_options();
  const Findings fine = model_findings(options);
  REQUIRE(find(fine, "model", Grade::kOk) != nullptr);
  CHECK(has(find(fine, "model", Grade::kOk)->text, "demo: "));
  CHECK(find(fine, "memory plan", Grade::kOk) != nullptr);

  options.memory_bytes = 1 << 20;
  const Findings small = model_findings(options);
  REQUIRE(find(small, "model", Grade::kProblem) != nullptr);
  CHECK(has(find(small, "model", Grade::kProblem)->advice, "troupe inspect"));

  options.models = {{.dir = "/nonexistent"}};
  CHECK(has(find(model_findings(options), "model", Grade::kProblem)->text, "/nonexistent"));
}

TEST_CASE("doctor: the report has a line for each finding and one for advice, or JSON of the same") {
  const Findings findings = {
      {.about = "CPU", .text = "fast"},
      {.grade = Grade::kProblem, .about = "port", .text = "8000 is in use", .advice = "--port"}};
  CHECK(report_of(findings, false) ==
        "ok       CPU            fast\n"
        "problem  port           8000 is in use\n"
        "                        -> --port\n");
  const auto report = nlohmann::json::parse(report_of(findings, true));
  CHECK(report["ok"] == false);
  CHECK(report["findings"][1]["grade"] == "problem");
  CHECK(report["findings"][1]["advice"] == "--port");
  CHECK(nlohmann::json::parse(report_of({findings[0]}, true))["ok"] == true);
}

TEST_CASE("doctor: options that can't be are a problem by themselves") {
  CHECK(run_doctor({.options = {}, .problem = "--prot: unknown", .is_json = true}) == 1);
}
