// SPDX-License-Identifier: Apache-2.0
// Several workers in one engine: where sequences run, what becomes of them when a
// worker dies, and when that is too much.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/actors/world.hpp"

using namespace troupe;
using sim::Fault;

namespace {

sim::SimSettings with_workers(std::uint32_t num_workers) {
  auto settings = sim::small_settings();
  settings.options.num_workers = num_workers;
  return settings;
}

std::vector<std::shared_ptr<sim::SimClient>> submit_several(sim::SimWorld& world, int count) {
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (int i = 0; i < count; ++i)
    clients.push_back(submit(world, letters(std::string(5, static_cast<char>('a' + i)), 40, i)));
  return clients;
}

bool have_finished(const std::vector<std::shared_ptr<sim::SimClient>>& clients) {
  for (const auto& client : clients)
    if (!client->finished()) return false;
  return true;
}

}  // namespace

TEST_CASE("workers: requests are spread over all of them") {
  sim::SimWorld world(with_workers(3));
  world.settle();
  CHECK(world.engine().status().num_workers_up == 3);
  const auto clients = submit_several(world, 6);
  world.settle();
  for (WorkerId id = 0; id < 3; ++id) CHECK(world.scheduler().core().num_running(id) == 2);
  REQUIRE(world.run());
  CHECK(have_finished(clients));
  CHECK(world.devices().num_devices == 3);
  CHECK(leftovers(world) == "");
}

TEST_CASE("workers: what ran on a dead one goes on at another, though it never comes back") {
  auto settings = with_workers(2);
  settings.options.max_restarts = 2;
  settings.fails_to_start = [](std::uint64_t number) { return number > 2; };
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 9 ? Fault::kBatchError : Fault::kNone;
  };
  world.settle();  // else all of them go to the one that is ready first
  const auto clients = submit_several(world, 4);
  REQUIRE(world.run());
  CHECK(have_finished(clients));  // to the token: the clients check
  CHECK(world.devices().num_moved == 2);
  CHECK(world.devices().alive.size() == 1);
  const EngineStatus status = world.engine().status();
  CHECK(status.state == EngineState::kReady);
  CHECK(status.trouble == Trouble::kNone);
  CHECK(status.num_workers_up == 1);
  CHECK(status.num_workers == 2);
  CHECK(world.metric("troupe_by_worker_up") == 1);
  CHECK(world.metric("troupe_worker_restarts_total") == 2);
  CHECK(world.metric("troupe_by_worker_restarts_total") == 2);
  CHECK(leftovers(world) == "");
}

TEST_CASE("workers: the engine has failed when the last one died too often") {
  auto settings = with_workers(2);
  settings.options.max_restarts = 1;
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t) { return Fault::kThrowSomethingElse; };
  const auto clients = submit_several(world, 8);
  REQUIRE(world.run());
  CHECK(world.engine().status().state == EngineState::kFailed);
  CHECK(world.engine().environment().board->failure().find("more than 1 times") != std::string::npos);
  CHECK(world.devices().num_devices == 4);
  for (const auto& client : clients) CHECK(client->error());
  CHECK(leftovers(world) == "");
}

TEST_CASE(
    "workers: one that can't start is tried again once another works; if none can, the engine has failed") {
  std::uint64_t num_asked = 0;
  auto settings = with_workers(2);
  settings.fails_to_start = [&](std::uint64_t) { return ++num_asked == 1; };
  {
    sim::SimWorld world(settings);
    const auto clients = submit_several(world, 4);
    REQUIRE(world.run());
    CHECK(have_finished(clients));
    CHECK(num_asked == 3);
    CHECK(world.engine().status().num_workers_up == 2);
  }
  num_asked = 0;
  settings.fails_to_start = [&](std::uint64_t) { return ++num_asked > 0; };
  sim::SimWorld world(settings);
  world.settle();
  CHECK(num_asked == 2);  // what is wrong would be wrong again
  CHECK(world.engine().status().state == EngineState::kFailed);
  CHECK(world.engine().environment().board->failure() == "simulated failure to start");
}

TEST_CASE("workers: a request that kills workers is given up, and costs no more of them than with one") {
  sim::SimWorld world(with_workers(3));
  const auto clients = submit_several(world, 6);
  const auto poison = clients[2]->id();
  world.devices().choose_fault = [poison](const Batch& batch, std::uint64_t) {
    for (const auto& slice : batch.slices)
      if (slice.sequence == poison && slice.context_length > 12) return Fault::kBatchError;
    return Fault::kNone;
  };
  REQUIRE(world.run());
  for (const auto& client : clients) {
    if (client->id() == poison) {
      REQUIRE(client->error());
      CHECK(client->error()->kind == ApiErrorKind::kInternal);
    } else {
      CHECK(client->finished());
    }
  }
  CHECK(world.devices().num_devices <= 3 + 3);
  CHECK(world.engine().status().num_workers_up == 3);
  CHECK(leftovers(world) == "");
}

TEST_CASE("workers: a request whose beginning is where no pages are left runs elsewhere, at once") {
  auto settings = with_workers(2);
  settings.device.description.num_pages = 16;
  settings.device.batch_time = std::chrono::milliseconds(10);
  sim::SimWorld world(settings);
  const std::string beginning(32, 'x');
  const auto first = submit(world, letters(beginning + "abcd", 20));
  world.run([&] { return first->text().size() > 2; });
  REQUIRE(world.scheduler().core().num_running(0) == 1);
  const auto second = submit(world, letters(beginning + std::string(28, 'b'), 3));
  world.settle();
  CHECK(world.scheduler().core().num_running(1) == 1);
  REQUIRE(world.run());
  CHECK(have_finished({first, second}));
  CHECK(leftovers(world) == "");
}
