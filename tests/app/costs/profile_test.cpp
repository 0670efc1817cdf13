// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/costs/device_probe.hpp"
#include "app/costs/served_iterations.hpp"
#include "loadgen/simulator/cost_profile_file.hpp"
#include "policy/costs/residuals.hpp"
#include "tests/support/random_cells.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

Options noop_options(std::uint64_t iteration_us) {
  Options options;
  options.models.front().dir = TROUPE_SOURCE_DIR "/models/demo";
  options.device = "noop";
  options.noop_iteration_us = iteration_us;
  options.serving.max_batch_sequences = 8;
  options.serving.max_batch_tokens = 64;
  return options;
}

}  // namespace

TEST_CASE("profile: every batch of the grid is one that the device takes, and differs from the others") {
  DeviceProbe probe(load_model(noop_options(200)));
  const auto samples = probe.measure(1);
  CHECK(samples.size() > 20);
  bool has_prompts = false, has_decodes = false, has_both = false;
  double total = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const IterationShape& shape = samples[i].shape;
    CHECK(shape.num_tokens <= 64);
    CHECK(shape.num_sequences <= 8);
    CHECK(samples[i].nanoseconds > 0);
    total += samples[i].nanoseconds;
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(samples[j].shape == shape);
    has_prompts |= shape.decode_keys == 0;
    has_decodes |= shape.prefill_pairs == 0;
    has_both |= shape.decode_keys > 0 && shape.prefill_pairs > 0;
  }
  // One that was seen to end late leaves less to the next.
  CHECK(total >= 100'000.0 * static_cast<double>(samples.size()));
  CHECK(has_prompts);
  CHECK(has_decodes);
  CHECK(has_both);
}

std::string flag_in(const CostProfile& profile, const char* name) {
  const auto found = std::find_if(profile.flags.begin(), profile.flags.end(),
                                  [&](const ProfiledFlag& each) { return each.name == name; });
  return found == profile.flags.end() ? "not said" : found->value + (found->is_default ? ", default" : "");
}

TEST_CASE("profile: what is written can be simulated with, and holds the server's options") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "profile.json";
  REQUIRE(run_profile({.options = noop_options(300), .out = file.string(), .num_rounds = 1}) == 0);
  const CostProfile profile = loadgen::read_cost_profile(file);
  CHECK(profile.model == "demo");
  CHECK(profile.serving.settings.max_batch_sequences == 8);
  CHECK(profile.serving.settings.max_batch_tokens == 64);
  CHECK(profile.serving.page_size == 32);
  const auto flag = [&](const char* name) { return flag_in(profile, name); };
  CHECK(flag("--device") == "noop");
  CHECK(flag("--noop-iteration-us") == "300");
  CHECK(flag("--model") == "demo, default");
  CHECK(flag("--memory") == "0, default");
  CHECK(flag("--workers") == "1, default");
  CHECK(flag("--max-batch-tokens") == "not said");  // a setting, which simulations change
  CHECK(flag("--port") == "not said");
  CHECK(profile.iteration({.num_tokens = 1, .num_sequences = 1, .num_output_rows = 1}).count() > 100'000);
}

TEST_CASE("profile: cells of a recurrent network are measured each for itself, with the batches that pay") {
  const TemporaryDirectory directory;
  const auto model = directory.path() / "model", file = directory.path() / "profile.json";
  test::load_random_cells(model, "seq2seq", 3);
  REQUIRE(run_profile({.options = test::options_of_cells(model), .out = file.string(), .num_rounds = 1}) ==
          0);
  const CostProfile profile = loadgen::read_cost_profile(file);
  REQUIRE(profile.cells.has_value());
  CHECK(profile.cells->graphs == GraphKind::kEncodeDecode);
  CHECK(profile.cells->num_rows >= 16);
  REQUIRE(profile.cells->types.size() == 2);
  CHECK(profile.cells->types[0].name == "encoder_step");
  CHECK(profile.cells->types[1].name == "decoder_step");
  for (const ProfiledCell& cell : profile.cells->types) {
    CHECK(cell.max_batch >= 1);
    CHECK(cell.max_batch <= 16);
    CHECK(cell.cost({.num_tokens = 1, .num_sequences = 1}).count() > 0);
  }
}

TEST_CASE("profile: what rows are rounded to is written as what auto came to") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "profile.json";
  Options options = noop_options(0);
  options.device = "cpu";
  options.memory_bytes = 64 << 20;
  options.serving.max_batch_sequences = 2;
  options.serving.max_batch_tokens = 32;
  for (const auto& [quantize, activations, written] :
       std::vector<std::array<const char*, 3>>{{"none", "auto", "exact, default"},
                                               {"q4", "auto", "q8 below 8 bits, default"},
                                               {"q4", "exact", "exact"}}) {
    options.quantize = quantize;
    options.activations = activations;
    REQUIRE(run_profile({.options = options, .out = file.string(), .num_rounds = 1}) == 0);
    CHECK(flag_in(loadgen::read_cost_profile(file), "--activations") == written);
  }
}

TEST_CASE("profile: a disk tier is measured where the server would have one") {
  const TemporaryDirectory directory;
  Options options = noop_options(0);
  options.device = "cpu";
  options.memory_bytes = 64 << 20;
  options.cache_host_memory = 8 << 20;
  options.serving.max_batch_sequences = 2;
  options.serving.max_batch_tokens = 32;
  const auto profiled = [&](const std::string& store) {
    options.store_directory = store;
    const auto file = directory.path() / "profile.json";
    REQUIRE(run_profile({.options = options, .out = file.string(), .num_rounds = 1}) == 0);
    return loadgen::read_cost_profile(file).serving;
  };
  const auto with_disk = profiled((directory.path() / "store").string());
  CHECK(with_disk.num_host_pages > 0);
  CHECK(with_disk.num_disk_pages > with_disk.num_host_pages);  // 4 GiB
  CHECK(with_disk.disk.per_page > 0);
  const auto without = profiled("none");
  CHECK(without.num_disk_pages == 0);
  CHECK(without.disk == LoadCost{});
}

// Iterations of 1 ms and 10 us a stream, of which one in forty stalls for 4 ms more; one in
// twenty reads a prompt of 32 tokens as well.
TraceFile served_trace(int count) {
  TraceFile trace;
  for (int i = 0; i < count; ++i) {
    const double streams = 1 + i % 7;
    TraceSpan span;
    span.name = "iteration";
    const bool has_prompt = i % 20 == 7;
    span.numbers = {{"troupe.batch.tokens", streams + (has_prompt ? 32 : 0)},
                    {"troupe.batch.sequences", streams},
                    {"troupe.batch.output_rows", streams},
                    {"troupe.batch.decode_keys", 100 * streams},
                    {"troupe.batch.prefill_pairs", has_prompt ? 528 : 0},
                    {"troupe.batch.copies", 0},
                    {"troupe.batch.network_seconds", 1e-3 + 1e-5 * streams + (i % 40 == 0 ? 4e-3 : 0)}};
    trace.spans.push_back(span);
  }
  return trace;
}

TEST_CASE("profile: iterations that were served give the cost, and what stalls add to it") {
  auto samples = served_iterations(served_trace(2000));
  REQUIRE(samples.size() == 2000);
  CHECK(samples[3].shape.decode_keys == 400);
  IterationCost cost = fit_iteration_cost(samples);
  const auto residuals = split_off_residuals(cost, samples);
  CHECK(residual_at(residuals, 0.5) < 1);
  CHECK(residual_at(residuals, 0.99) > 3);
}

TEST_CASE("profile: batches of encoders, and those that took copies with them, are no samples") {
  auto trace = served_trace(300);
  trace.spans[1].numbers["troupe.batch.copies"] = 3;
  trace.spans[2].numbers["troupe.batch.decode_keys"] = 0;  // as an encoder's
  trace.spans[2].numbers["troupe.model.index"] = 1;
  CHECK(served_iterations(trace).size() == 298);
}

TEST_CASE("profile: served iterations that tell nothing are refused") {
  CHECK_THROWS_WITH_AS(served_iterations(served_trace(199)),
                       "iteration spans: expected at least 200 without copies, got 199", std::runtime_error);
  auto old = served_trace(300);
  for (TraceSpan& span : old.spans) span.numbers.erase("troupe.batch.decode_keys");
  CHECK_THROWS_AS(served_iterations(old), std::runtime_error);
  auto copying = served_trace(300);
  for (TraceSpan& span : copying.spans) span.numbers["troupe.batch.copies"] = 1;
  CHECK_THROWS_WITH_AS(served_iterations(copying),
                       "iteration spans: expected at least 200 without copies, got 0", std::runtime_error);
  for (const char* source : {"troupe.worker.id", "troupe.model.index"}) {
    auto mixed = served_trace(300);
    mixed.spans[9].numbers[source] = 1;
    CHECK_THROWS_WITH_AS(
        served_iterations(mixed),
        "iteration spans: expected those of one server, model and worker, got 2 different ones",
        std::runtime_error);
  }
  auto decodes = served_trace(300);
  for (TraceSpan& span : decodes.spans) span.numbers["troupe.batch.prefill_pairs"] = 0;
  CHECK_THROWS_WITH_AS(served_iterations(decodes),
                       "iteration spans: expected decodes and prompts, got no prompts", std::runtime_error);
  auto even = served_trace(300);
  for (TraceSpan& span : even.spans) span.numbers["troupe.batch.tokens"] = 32;
  CHECK_THROWS_WITH_AS(served_iterations(even),
                       "iteration spans: expected batches that differ 4 times in tokens, got 32 to 32",
                       std::runtime_error);
  auto lost = served_trace(300);
  for (TraceSpan& span : lost.spans) span.is_error = true;
  CHECK_THROWS_AS(served_iterations(lost), std::runtime_error);
}

// As a server writes it.
void write_trace(const TraceFile& trace, const std::filesystem::path& path) {
  using nlohmann::json;
  json spans = json::array();
  for (const TraceSpan& span : trace.spans) {
    json attributes = json::array();
    for (const auto& [key, value] : span.numbers)
      attributes.push_back({{"key", key}, {"value", {{"doubleValue", value}}}});
    spans.push_back({{"traceId", std::string(32, 'a')},
                     {"spanId", std::string(16, 'b')},
                     {"name", span.name},
                     {"startTimeUnixNano", "1"},
                     {"endTimeUnixNano", "2"},
                     {"attributes", attributes}});
  }
  const json scopes = {{{"spans", spans}}};
  const json resources = {{{"scopeSpans", scopes}}};
  std::ofstream(path) << json{{"resourceSpans", resources}}.dump() << "\n";
}

TEST_CASE("profile: times that can't be fitted are named, and no file is written") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "profile.json", live = directory.path() / "trace.jsonl";
  auto trace = served_trace(300);
  const ProfileCommand command{
      .options = noop_options(0), .out = file.string(), .num_rounds = 1, .live = live.string()};
  trace.spans[5].numbers["troupe.batch.network_seconds"] = 1e300;
  write_trace(trace, live);
  CHECK_THROWS_WITH_AS(run_profile(command),
                       "profile: the times can't be fitted, and no file is written: expected a batch of 6 "
                       "tokens to take from 1 to 1e12 nanoseconds, got inf",
                       std::runtime_error);
  CHECK_FALSE(std::filesystem::exists(file));
  write_trace(served_trace(300), live);
  REQUIRE(run_profile(command) == 0);
  CHECK(loadgen::read_cost_profile(file).residuals.size() == 300);
}

TEST_CASE("profile: a file that can't be written is named") {
  CHECK_THROWS_WITH_AS(
      run_profile({.options = noop_options(100), .out = "/nowhere/profile.json", .num_rounds = 1}),
      "/nowhere/profile.json: cannot be written", std::runtime_error);
}
