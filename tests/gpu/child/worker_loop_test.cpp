// SPDX-License-Identifier: Apache-2.0
// Both ends of the connection, with a thread in the worker process's place: the
// real CPU backend behind the real device of the server.
#include "gpu/child/worker_loop.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "generation.hpp"
#include "gpu/child/child_device.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tiny_bert.hpp"
#include "tiny_model.hpp"

namespace troupe::child {
namespace {

constexpr std::chrono::seconds kLong{60};

const std::filesystem::path& model_directory() {
  static const TemporaryDirectory directory;
  static const bool is_written = [] {
    write_random_llama(directory.path(), tiny_llama(), 1);
    return true;
  }();
  static_cast<void>(is_written);
  return directory.path();
}

BackendSettings tiny_settings() {
  BackendSettings settings;
  settings.model_dir = model_directory().string();
  settings.num_slots = 8;
  settings.max_batch_tokens = 64;
  settings.max_pages = 64;
  settings.num_threads = 2;
  settings.memory_budget_bytes = 64 << 20;
  return settings;
}

// A worker that is a thread.
class WorkerThread {
 public:
  explicit WorkerThread(BackendMaker maker = make_backend) {
    auto [ours, theirs] = FrameSocket::connected_pair();
    ours_ = std::move(ours);
    thread_ = std::thread([this, maker = std::move(maker), end = std::move(theirs)]() mutable {
      went_well_ = run_worker(std::move(end), maker);
    });
  }
  ~WorkerThread() {
    ours_.close();
    if (thread_.joinable()) thread_.join();
  }

  FrameSocket& socket() { return ours_; }
  Worker worker() { return Worker(std::move(ours_)); }
  // After whoever has the socket has let go of it.
  bool went_well() {
    thread_.join();
    return went_well_;
  }

 private:
  FrameSocket ours_;
  bool went_well_ = false;
  std::thread thread_;
};

BackendPlan start(Worker& worker, const BackendSettings& settings = tiny_settings()) {
  worker.ask<Hello>(Hello{}, kLong);
  StartBackend start;
  start.settings = settings;
  return worker.ask<BackendPlan>(start, kLong);
}

std::unique_ptr<ChildDevice> make_device(Worker worker, std::shared_ptr<HostPages> host_pages = {},
                                         ChildDevice::GiveBack give_back = {}) {
  MakeDevice message;
  if (host_pages)
    message = {.num_host_pages = host_pages->num_pages(), .host_page_bytes = host_pages->page_bytes()};
  auto description =
      worker.ask<DeviceDescription>(message, kLong, host_pages ? host_pages->descriptor() : -1);
  return std::make_unique<ChildDevice>(std::move(worker), std::move(description), std::move(host_pages),
                                       std::move(give_back));
}

std::vector<DirectRequest> some_requests() {
  return {{.prompt = {3, 4, 5}, .num_new = 12},
          {.prompt = {7, 1, 9, 9, 2, 30}, .num_new = 20, .first_iteration = 2},
          {.prompt = {50}, .num_new = 9, .sampling = {.temperature = 1.0F, .seed = 5}}};
}

}  // namespace

TEST_CASE("child worker loop: the same tokens as in this process, and a second device after the first") {
  const auto inline_backend = make_cpu_backend(tiny_settings());
  const auto inline_device = inline_backend->make_device(nullptr);
  ProgramCache programs(std::shared_ptr<const Network>(load_network(model_directory())),
                        inline_backend->plan().compute_type, {.max_tokens = 64, .max_output_rows = 8});
  const auto expected = generate(*inline_device, programs, some_requests(), {.in_flight = 2});

  WorkerThread thread;
  Worker worker = thread.worker();
  const BackendPlan plan = start(worker);
  CHECK(plan.computation == inline_backend->plan().computation);
  CHECK(plan.memory.num_pages == inline_backend->plan().memory.num_pages);
  std::optional<Worker> given_back;
  auto device = make_device(std::move(worker), {}, [&](Worker back) { given_back.emplace(std::move(back)); });
  CHECK(device->description().num_pages == inline_device->description().num_pages);
  CHECK(inline_device->description().waits_for_masks);
  CHECK_FALSE(device->description().waits_for_masks);  // they would have to come over the wire
  CHECK(generate(*device, programs, some_requests(), {.in_flight = 2}) == expected);
  device.reset();
  REQUIRE(given_back);
  device = make_device(*std::move(given_back));
  given_back.reset();
  CHECK(generate(*device, programs, some_requests(), {.shuffle = true}) == expected);
  device.reset();
  CHECK(thread.went_well());
}

TEST_CASE("child worker loop: an encoder gives the same vectors as in this process, to the bit") {
  BackendSettings settings = tiny_settings();
  settings.model_dir = tiny_bert_directory().string();
  settings.max_batch_tokens = 32 * 64;
  const auto inline_backend = make_cpu_backend(settings);
  const auto inline_device = inline_backend->make_device(nullptr);
  ProgramCache programs(load_network(settings.model_dir), inline_backend->plan().compute_type,
                        {.max_tokens = settings.max_batch_tokens, .max_output_rows = 8});
  WorkerThread thread;
  Worker worker = thread.worker();
  CHECK(start(worker, settings).memory.num_pages == 0);
  const auto device = make_device(std::move(worker));
  CHECK(device->description().cells == inline_device->description().cells);
  const auto texts = random_texts(32, 21);
  const auto expected = encode(*inline_device, &programs, texts);
  CHECK(encode(*device, nullptr, texts) == expected);
  for (const std::size_t i : {0U, 13U, 31U})
    CHECK(encode(*device, nullptr, {texts[i]}).front() == expected[i]);
  Batch batch = batch_of({{1}});
  batch.cell = 1;
  CHECK(wait_for(*device, device->submit(nullptr, std::make_shared<const Batch>(batch))).error ==
        "the network has no cell 1, only 1");
}

TEST_CASE("child worker loop: pages that one worker stored, the next one loads") {
  const auto page_bytes = make_cpu_backend(tiny_settings())->plan().memory.request.page_bytes;
  const auto host_pages = std::make_shared<HostPages>(HostPages::shared(4, page_bytes));
  const auto move = [&](bool to_host, std::uint32_t host_page, std::uint64_t generation) {
    WorkerThread thread;
    Worker worker = thread.worker();
    start(worker);
    const auto device = make_device(std::move(worker), host_pages);
    CHECK(device->description().num_host_pages == 4);
    Batch batch;
    batch.copies = {{.direction = to_host ? PageCopy::kStore : PageCopy::kLoad,
                     .device_page = 1,
                     .host_page = host_page,
                     .generation = generation}};
    return wait_for(*device, device->submit(nullptr, std::make_shared<const Batch>(batch))).failed_loads;
  };
  CHECK(move(true, 2, 77).empty());
  CHECK(host_pages->load(2, 77).size() == page_bytes);
  CHECK(move(false, 2, 77).empty());
  CHECK(move(false, 3, 78) == std::vector<std::uint64_t>{78});
}

TEST_CASE("child worker loop: a batch that the device refuses is a failed batch, in its turn") {
  WorkerThread thread;
  Worker worker = thread.worker();
  start(worker);
  const auto device = make_device(std::move(worker));
  Batch too_large;
  too_large.slices.resize(1);
  too_large.token_ids.resize(1000);
  const auto good = std::make_shared<const Batch>();
  device->submit(nullptr, good);
  device->submit(nullptr, std::make_shared<const Batch>(too_large));
  CHECK(wait_for(*device, 1).error.empty());
  CHECK_FALSE(wait_for(*device, 2).error.empty());
}

TEST_CASE("child worker loop: what it can't do it says, and ends") {
  SUBCASE("no such model") {
    WorkerThread thread;
    {
      Worker worker = thread.worker();
      worker.ask<Hello>(Hello{}, kLong);
      StartBackend start;
      start.settings.model_dir = "/nonexistent";
      CHECK_THROWS_WITH(worker.ask<BackendPlan>(start, kLong), doctest::Contains("/nonexistent"));
    }
    CHECK_FALSE(thread.went_well());
  }
  SUBCASE("another build") {
    WorkerThread thread;
    {
      Worker worker = thread.worker();
      CHECK_THROWS_WITH(worker.ask<Hello>(Hello{.fingerprint = 1}, kLong),
                        doctest::Contains("another build"));
    }
    CHECK_FALSE(thread.went_well());
  }
  SUBCASE("host pages without their memory") {
    WorkerThread thread;
    {
      Worker worker = thread.worker();
      start(worker);
      CHECK_THROWS_WITH(
          worker.ask<DeviceDescription>(MakeDevice{.num_host_pages = 1, .host_page_bytes = 64}, kLong),
          doctest::Contains("can't share"));
    }
    CHECK_FALSE(thread.went_well());
  }
  SUBCASE("a batch before there is a device") {
    WorkerThread thread;
    {
      Worker worker = thread.worker();
      start(worker);
      CHECK_THROWS_WITH(worker.ask<BatchAnswer>(SubmitBatch{}, kLong),
                        "a batch came before a device was asked for");
    }
    CHECK_FALSE(thread.went_well());
  }
  SUBCASE("garbage") {
    WorkerThread thread;
    const std::array<std::byte, 64> garbage{};
    thread.socket().send(std::span<const std::byte>(garbage));
    const auto frame = thread.socket().receive(kLong);
    REQUIRE(frame);
    CHECK(decode<WorkerError>(*frame).text == "what came is no frame");
  }
}

TEST_CASE("child worker loop: a server that goes away in the midst of batches ends it") {
  WorkerThread thread;
  Worker worker = thread.worker();
  start(worker);
  auto device = make_device(std::move(worker));
  const auto batch = std::make_shared<const Batch>();
  for (int i = 0; i < 20; ++i) device->submit(nullptr, batch);
  device.reset();
  CHECK(thread.went_well());
}

}  // namespace troupe::child
