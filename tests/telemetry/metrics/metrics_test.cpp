// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/metrics.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/observability/protobuf_reader.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

// Every sample of the text format: "name{labels}" to value.
std::map<std::string, double> samples_of(const Metrics& metrics) {
  std::map<std::string, double> samples;
  std::istringstream lines(metrics.expose());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const auto space = line.rfind(' ');
    CHECK_MESSAGE(samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second, line);
  }
  return samples;
}

std::map<std::string, ProtobufMessage> families_of(const Metrics& metrics) {
  std::map<std::string, ProtobufMessage> families;
  for (const auto& family : delimited_messages(metrics.expose(ExpositionFormat::kProtobuf)))
    CHECK_MESSAGE(families.emplace(family.text(1), family).second, family.text(1));
  return families;
}

}  // namespace

TEST_CASE("metrics: a counter, a gauge and a histogram appear with the model's label") {
  const Metrics metrics("demo");
  metrics.generation_tokens.add(3);
  metrics.pages_free.set(7);
  metrics.time_to_first_token.observe(0.25);
  const auto text = metrics.expose();
  CHECK(text.find("troupe_generation_tokens_total{model_name=\"demo\"} 3\n") != std::string::npos);
  CHECK(text.find("troupe_kv_pages{model_name=\"demo\",state=\"free\",tier=\"device\"} 7\n") !=
        std::string::npos);
  CHECK(text.find("troupe_time_to_first_token_seconds_count{model_name=\"demo\"} 1\n") != std::string::npos);
}

TEST_CASE("metrics: a model's name can't forge lines") {
  const Metrics metrics("a\"} 1\nforged 2");
  CHECK(metrics.expose().find("\nforged") == std::string::npos);
}

TEST_CASE("metrics: one observation counts once in our buckets and once in vLLM's") {
  const Metrics metrics("demo");
  metrics.inter_token_latency.observe(0.0007);
  metrics.inter_token_latency.observe(0.03);
  auto samples = samples_of(metrics);
  const std::string ours = "troupe_inter_token_latency_seconds_bucket{model_name=\"demo\",le=";
  CHECK(samples.at(ours + "\"0.0005\"}") == 0);
  CHECK(samples.at(ours + "\"0.001\"}") == 1);
  CHECK(samples.at(ours + "\"0.03\"}") == 2);
  CHECK(samples.at(ours + "\"+Inf\"}") == 2);
  for (const std::string name : {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}) {
    const std::string theirs = name + "_bucket{engine=\"0\",model_name=\"demo\",le=";
    CHECK(samples.at(theirs + "\"0.01\"}") == 1);
    CHECK(samples.at(theirs + "\"0.025\"}") == 1);
    CHECK(samples.at(theirs + "\"0.05\"}") == 2);
    CHECK(samples.at(name + "_count{engine=\"0\",model_name=\"demo\"}") == 2);
  }
  CHECK(samples.at("vllm:inter_token_latency_seconds_sum{engine=\"0\",model_name=\"demo\"}") ==
        doctest::Approx(0.0307));
}

TEST_CASE("metrics: counters and gauges of the same meaning have vLLM's names, labels and reasons") {
  const Metrics metrics("demo");
  metrics.requests_cancelled.add(4);
  metrics.requests_stop.add(5);
  metrics.requests_running.set(6);
  metrics.computed_prompt_tokens.add(70);
  metrics.cached_prompt_tokens.add(30);
  metrics.prefix_cache_hits.add(8);
  auto samples = samples_of(metrics);
  CHECK(samples.at(
            "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\",model_name=\"demo\"}") == 4);
  CHECK(samples.at("vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"demo\"}") ==
        5);
  CHECK(samples.at("vllm:num_requests_running{engine=\"0\",model_name=\"demo\"}") == 6);
  const std::string by_source = "vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"demo\",source=";
  CHECK(samples.at(by_source + "\"local_compute\"}") == 70);
  CHECK(samples.at(by_source + "\"local_cache_hit\"}") == 30);
  CHECK(samples.at("vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"demo\"}") == 8);
}

TEST_CASE("metrics: vLLM's cache usage is the share of pages that sequences hold") {
  const Metrics metrics("demo");
  const std::string usage = "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"demo\"}";
  CHECK(samples_of(metrics).at(usage) == 0);  // no pages yet
  metrics.pages_capacity.set(200);
  metrics.page_tokens.set(32);
  metrics.pages_running.set(50);
  metrics.pages_cached.set(100);
  CHECK(samples_of(metrics).at(usage) == 0.25);
  CHECK(samples_of(metrics).at(
            "vllm:cache_config_info{engine=\"0\",block_size=\"32\",num_gpu_blocks=\"200\"}") == 1);
}

TEST_CASE("metrics: vLLM's names can be switched off, and nothing else changes") {
  const Metrics with("demo"), without("demo", {.version = {}, .vllm_names = false});
  auto ours = samples_of(with);
  std::erase_if(ours, [](const auto& sample) { return sample.first.starts_with("vllm:"); });
  std::set<std::string> expected, found;
  for (const auto& [name, value] : ours) expected.insert(name);
  for (const auto& [name, value] : samples_of(without)) found.insert(name);
  CHECK(found == expected);
}

TEST_CASE("metrics: vLLM's buckets of token counts end at the context length") {
  const Metrics metrics("demo", {.version = {}, .context_length = 500});
  auto samples = samples_of(metrics);
  const std::string bucket = "vllm:request_prompt_tokens_bucket{engine=\"0\",model_name=\"demo\",le=";
  CHECK(samples.contains(bucket + "\"500\"}"));
  CHECK(!samples.contains(bucket + "\"1000\"}"));
  CHECK_NOTHROW(Metrics("demo", {.version = {}, .context_length = 1u << 31}));
  CHECK_NOTHROW(Metrics("demo", {.version = {}, .context_length = 0}));
}

TEST_CASE("metrics: both formats have the same families, types, labels and values") {
  const Metrics metrics("demo", {.version = "1.2"});
  metrics.generation_tokens.add(3);
  metrics.pages_free.set(7.5);
  const auto families = families_of(metrics);
  std::set<std::string> in_text;
  std::istringstream lines(metrics.expose());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    std::istringstream words(line.substr(7));
    std::string name, type;
    words >> name >> type;
    in_text.insert(name);
    REQUIRE_MESSAGE(families.contains(name), name);
    const std::map<std::uint64_t, std::string> types = {{0, "counter"}, {1, "gauge"}, {4, "histogram"}};
    CHECK(types.at(families.at(name).number(3)) == type);
  }
  CHECK(in_text.size() == families.size());

  const auto counter = families.at("troupe_generation_tokens_total").messages(4);
  REQUIRE(counter.size() == 1);
  CHECK(counter[0].messages(3).at(0).real(1) == 3);
  CHECK(counter[0].messages(1).at(0).text(1) == "model_name");
  CHECK(counter[0].messages(1).at(0).text(2) == "demo");
  bool has_free = false;
  for (const auto& pages : families.at("troupe_kv_pages").messages(4))
    has_free = has_free || pages.messages(2).at(0).real(1) == 7.5;
  CHECK(has_free);
}

TEST_CASE("metrics: our histograms have native buckets in protobuf, vLLM's are classic only") {
  const Metrics metrics("demo");
  for (const double seconds : {0.1, 0.1, 0.2, 0.0}) metrics.time_to_first_token.observe(seconds);
  const auto families = families_of(metrics);
  const auto ours = families.at("troupe_time_to_first_token_seconds").messages(4).at(0).messages(7).at(0);
  CHECK(ours.number(1) == 4);
  CHECK(ours.real(2) == doctest::Approx(0.4));
  CHECK(unzigzag(ours.number(5)) == 4);  // schema
  CHECK(ours.real(6) > 0);               // zero threshold
  CHECK(ours.number(7) == 1);
  // 2^(-53/16) is 0.1006, a factor of two is 16 buckets.
  const auto spans = ours.messages(12);
  REQUIRE(spans.size() == 2);
  CHECK(unzigzag(spans[0].number(1)) == -53);
  CHECK(unzigzag(spans[1].number(1)) == 15);
  CHECK(ours.packed_sint64(13) == std::vector<std::int64_t>{2, -1});
  CHECK(ours.messages(3).size() == 24);  // classic ones too

  const auto theirs = families.at("vllm:time_to_first_token_seconds").messages(4).at(0).messages(7).at(0);
  CHECK(theirs.number(1) == 4);
  CHECK(theirs.messages(3).size() == 22);
  CHECK(theirs.real(6) == 0);
  CHECK(theirs.messages(12).empty());
}

TEST_CASE("metrics: the process is shown as all Prometheus clients show theirs") {
  const Metrics metrics("demo");
  auto samples = samples_of(metrics);
  CHECK(samples.at("process_resident_memory_bytes") > 1e6);
  CHECK(samples.at("process_virtual_memory_bytes") >= samples.at("process_resident_memory_bytes"));
  CHECK(samples.at("process_cpu_seconds_total") >= 0);
  CHECK(samples.at("process_start_time_seconds") > 1.5e9);
  CHECK(samples.at("process_open_fds") >= 3);
  CHECK(samples.at("process_max_fds") >= samples.at("process_open_fds"));
  std::atomic<bool> is_over = false;
  const std::jthread one_more([&] { is_over.wait(false); });
  CHECK(samples_of(metrics).at("process_threads") == samples.at("process_threads") + 1);
  is_over = true;
  is_over.notify_all();
}
