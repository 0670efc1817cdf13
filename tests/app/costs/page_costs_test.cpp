// SPDX-License-Identifier: Apache-2.0
#include "app/costs/page_costs.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "app/costs/page_cost_file.hpp"
#include "app/costs/page_cost_probe.hpp"
#include "gpu/device.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

Options demo_options(const std::string& device) {
  Options options;
  options.models.front().dir = TROUPE_SOURCE_DIR "/models/demo";
  options.store_directory = "none";  // weights stay out of the state directory of who runs this
  options.device = device;
  options.threads = 1;
  options.pin_threads = false;
  options.memory_bytes = 256 << 20;
  return options;
}

constexpr std::uint32_t kDeepest = 63;  // the demo model's context is 2048 tokens

bool are_equal(const RestoreCosts& a, const RestoreCosts& b) {
  return a.recompute.constant == b.recompute.constant && a.recompute.attention == b.recompute.attention &&
         a.host == b.host && a.disk == b.disk;
}

const RestoreCosts kCosts{.recompute = {.constant = 700'000.5, .attention = {1000, 2000.25, 1e6}},
                          .host = {.fixed = 0, .per_page = 5000},
                          .disk = {.fixed = 10, .per_page = 300'000}};

class KeptFile {
 public:
  KeptFile() : state(directory_.path() / "state") {}
  std::filesystem::path path() const { return directory_.path() / "state" / kPageCostFile; }
  std::string text() const { return test::file_text(path()); }
  void set_text(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::string problem_of(const std::string& key = "key") const {
    try {
      return read_page_costs(state.descriptor(), key) ? "" : "nothing there";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

 private:
  test::TemporaryDirectory directory_;

 public:
  StateDirectory state;
};

// Says that each batch of tokens took so long, the first of them another time.
class TimedDevice final : public Device {
 public:
  TimedDevice(std::unique_ptr<Device> inner, std::int64_t first, std::int64_t others)
      : inner_(std::move(inner)), next_(first), others_(others) {}

  const DeviceDescription& description() const override { return inner_->description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    return inner_->submit(std::move(program), std::move(batch));
  }
  Ticket completed() const noexcept override { return inner_->completed(); }
  BatchResult collect(Ticket ticket) override {
    BatchResult result = inner_->collect(ticket);
    result.network_nanoseconds = std::exchange(next_, others_);
    return result;
  }
  void set_listener(std::function<void()> listener) override { inner_->set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return inner_->poll_delay(); }

 private:
  std::unique_ptr<Device> inner_;
  std::int64_t next_, others_;
};

double measured_first_page(std::int64_t first, std::int64_t others) {
  Options options = demo_options("cpu");
  options.cache_host_memory = 0;
  auto model = load_model(options);
  model.make_device = [make = model.make_device, first, others](WorkerId worker) {
    return std::make_unique<TimedDevice>(make(worker), first, others);
  };
  return measure_page_costs(model, std::chrono::milliseconds(1)).costs.recompute.of_page(0);
}

}  // namespace

TEST_CASE("page costs: the first batch, which finds all cold, counts only if it takes far too long") {
  CHECK(measured_first_page(400'000'000, 200'000'000) == doctest::Approx(2e8));
  CHECK(measured_first_page(2'000'000'000, 2'000'000'000) == doctest::Approx(2e9));
}

TEST_CASE("page costs: measured on the CPU device they are times, and the deepest page is the dearest") {
  const auto [costs, is_steady] =
      measure_page_costs(load_model(demo_options("cpu")), std::chrono::milliseconds(30));
  CHECK(costs.recompute.of_page(0) > 1000);
  CHECK(costs.recompute.of_page(kDeepest) > costs.recompute.of_page(0));
  CHECK(costs.recompute.attention.size() == 6);
  CHECK(costs.host.per_page > 0);
  CHECK(costs.host.fixed >= 0);
  CHECK(costs.disk == LoadCost{});
}

TEST_CASE("page costs: what measuring leaves on the host is nothing that serving could ask for") {
  const auto model = load_model(demo_options("cpu"));
  measure_page_costs(model, std::chrono::milliseconds(1));
  std::size_t num_found = 0;
  for (std::uint32_t page = 0; page < model.host_pages->num_pages(); ++page)
    for (std::uint64_t generation = 1; generation <= 2 * kDeepest; ++generation)
      num_found += model.host_pages->find(page, generation).bytes.empty() ? 0 : 1;
  CHECK(num_found == 0);
}

TEST_CASE("page costs: without a host tier there is no load to measure") {
  Options options = demo_options("cpu");
  options.cache_host_memory = 0;
  const auto measured = measure_page_costs(load_model(options), std::chrono::milliseconds(1));
  CHECK(measured.costs.recompute.of_page(0) > 1000);
  CHECK(measured.costs.host == LoadCost{});
}

TEST_CASE("page costs: where nothing can be measured, or is not to be, the network's shape has to do") {
  const KeptFile kept;
  const auto noop = load_model(demo_options("noop"));
  CHECK(are_equal(page_costs(demo_options("noop"), noop, &kept.state),
                  {.recompute = noop.served.recompute_cost}));
  Options options = demo_options("cpu");
  const auto model = load_model(options);
  const RestoreCosts estimated{.recompute = model.served.recompute_cost};
  options.cache_measure = false;
  CHECK(are_equal(page_costs(options, model, &kept.state), estimated));
  options.cache_measure = true;
  options.serving.cache_policy = EvictionPolicy::kNone;
  CHECK(are_equal(page_costs(options, model, &kept.state), estimated));
  CHECK(kept.problem_of() == "nothing there");
}

TEST_CASE("page costs: a device that fails costs a warning, not the start") {
  const auto options = demo_options("cpu");
  auto model = load_model(options);
  model.make_device = [](WorkerId) -> std::unique_ptr<Device> {
    throw std::runtime_error("no device today");
  };
  CHECK(are_equal(page_costs(options, model, nullptr), {.recompute = model.served.recompute_cost}));
}

TEST_CASE("page costs: what an earlier start measured is used, and not for another computation") {
  const KeptFile kept;
  Options options = demo_options("cpu");
  const auto model = load_model(options);
  const auto first = page_costs(options, model, &kept.state);
  if (!std::filesystem::exists(kept.path())) {
    MESSAGE("the machine was too busy for measurements worth keeping");
    return;
  }
  CHECK(first.disk.per_page > first.host.per_page);
  CHECK(are_equal(page_costs(options, model, &kept.state), first));
  const std::string before = kept.text();
  options.serving.max_batch_tokens = 128;
  page_costs(options, load_model(options), &kept.state);
  const bool is_measured_anew = kept.text() != before;
  CHECK((is_measured_anew || kept.problem_of() != ""));
}

TEST_CASE("page cost file: what is written is read again, by its key only, and replaces what was there") {
  const KeptFile kept;
  CHECK(kept.problem_of() == "nothing there");
  write_page_costs(kept.state.descriptor(), "key", kCosts);
  const auto read = read_page_costs(kept.state.descriptor(), "key");
  REQUIRE(read);
  CHECK(are_equal(*read, kCosts));
  CHECK(kept.problem_of("another") == "measured for another model, machine or version");
  write_page_costs(kept.state.descriptor(), "another", kCosts);
  CHECK(kept.problem_of("another") == "");
}

TEST_CASE("page cost file: one that is not in order counts as none, and says why") {
  const KeptFile kept;
  const auto problem_with = [&](const std::string& member) {
    kept.set_text(
        R"({"format": 1, "key": "key", "constant_ns": 5, "attention_ns": [1, 2], "load_from_host_ns": [0, 1],
                      "load_from_disk_ns": [0, 1])" +
        (member.empty() ? "" : ", " + member) + "}");
    return kept.problem_of();
  };
  CHECK(problem_with("") == "");
  const std::string not_times = "expected times in nanoseconds";
  CHECK(problem_with(R"("constant_ns": 0)") == not_times);
  CHECK(problem_with(R"("constant_ns": -1)") == not_times);
  CHECK(problem_with(R"("constant_ns": 1e300)") == not_times);
  CHECK(problem_with(R"("constant_ns": "7")") == not_times);
  CHECK(problem_with(R"("attention_ns": [1, null])") == not_times);
  CHECK(problem_with(R"("attention_ns": [1, -2])") == not_times);
  CHECK(problem_with(R"("attention_ns": 3)") == not_times);
  CHECK(problem_with(R"("load_from_host_ns": [1])") == not_times);
  CHECK(problem_with(R"("load_from_disk_ns": [1, 2, 3])") == not_times);
  CHECK(problem_with(R"("format": 2)") == "expected JSON of format 1");
  CHECK(problem_with(R"("format": "1")") == "expected JSON of format 1");
  CHECK(problem_with(R"("key": 5)") == "measured for another model, machine or version");
  kept.set_text("");
  CHECK(kept.problem_of() == "expected JSON of format 1");
  kept.set_text("[1, 2]");
  CHECK(kept.problem_of() == "expected JSON of format 1");
  kept.set_text(std::string(1 << 20, '['));
  CHECK(kept.problem_of() == "expected at most 65536 bytes, got more");
  std::string many = "0";
  for (int i = 0; i < 40; ++i) many += ", 1";
  CHECK(problem_with("\"attention_ns\": [" + many + "]") == not_times);
}

TEST_CASE("page cost file: flipped bits and cuts never do more than to have it measured again") {
  const KeptFile kept;
  write_page_costs(kept.state.descriptor(), "key", kCosts);
  const std::string good = kept.text();
  std::mt19937_64 random(9);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    if (round % 2 == 0) text.resize(random() % text.size());
    for (int flip = 0; flip < 3 && !text.empty(); ++flip)
      text[random() % text.size()] ^= static_cast<char>(1U << random() % 8);
    kept.set_text(text);
    try {
      const auto read = read_page_costs(kept.state.descriptor(), "key");
      REQUIRE(read);
      REQUIRE(read->recompute.of_page(kDeepest) > 0);
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_CASE("page cost file: neither links nor directories are followed, and nothing is waited for") {
  const KeptFile kept;
  const auto target = kept.path().parent_path() / "elsewhere";
  std::ofstream(target) << "{}";
  std::filesystem::create_symlink(target, kept.path());
  CHECK(kept.problem_of() != "nothing there");
  std::filesystem::remove(kept.path());
  std::filesystem::create_directory(kept.path());
  CHECK(kept.problem_of() == "expected a regular file");
  CHECK_THROWS_AS(write_page_costs(kept.state.descriptor(), "key", kCosts), std::runtime_error);
  std::filesystem::remove(kept.path());
  REQUIRE(::mkfifo(kept.path().c_str(), 0600) == 0);
  CHECK(kept.problem_of() == "expected a regular file");
  CHECK_THROWS_WITH_AS(write_page_costs(-1, "key", kCosts), "Bad file descriptor", std::runtime_error);
}
