// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_cores.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/backend.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_bert.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

BackendSettings settings_of(const std::filesystem::path& path) {
  BackendSettings settings;
  settings.model_dir = path.string();
  settings.num_slots = 8;
  settings.max_batch_tokens = 64;
  settings.max_pages = 64;
  settings.num_threads = 7;  // what the cores say counts
  settings.memory_budget_bytes = 64 << 20;
  return settings;
}

ProgramCache programs_of(const Backend& backend, const std::filesystem::path& path) {
  return {load_network(path), backend.plan().compute_type, {64, 8}};
}

}  // namespace

TEST_CASE("cpu cores: turns come in the order in which they were asked for, one at a time") {
  CorePool pool({});
  std::vector<int> order;
  std::atomic<int> num_inside{0};
  std::vector<std::thread> threads;
  {
    std::optional<CorePool::Turn> first(std::in_place, pool);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const CorePool::Turn turn(pool);
        CHECK(++num_inside == 1);
        order.push_back(i);
        --num_inside;
      });
      while (pool.num_waiting() != static_cast<std::size_t>(i) + 1) std::this_thread::yield();
    }
    CHECK(order.empty());
  }
  for (auto& thread : threads) thread.join();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(pool.num_waiting() == 0);
}

TEST_CASE("cpu cores: devices of several models at a worker wait for each other, and for no other worker's") {
  const auto cores = std::make_shared<CpuCores>(2, ThreadPoolOptions{});
  const auto first = make_cpu_backend(settings_of(tiny_bert_directory()), cores);
  const auto second = make_cpu_backend(settings_of(tiny_bert_directory()), cores);
  auto programs = programs_of(*first, tiny_bert_directory());
  const auto batch = std::make_shared<const Batch>(batch_of({{1, 2, 3}}));
  const auto busy = first->make_device(nullptr, 1);  // in whatever order they are made
  const auto beside = second->make_device(nullptr, 1);
  const auto elsewhere = second->make_device(nullptr, 0);
  CorePool& pool = *cores->pool(1);
  {
    const CorePool::Turn turn(pool);
    busy->submit(programs.find(0, 3, 0), batch);
    beside->submit(programs.find(0, 3, 0), batch);
    while (pool.num_waiting() < 2 && busy->completed() + beside->completed() == 0) std::this_thread::yield();
    CHECK(busy->completed() == 0);
    CHECK(beside->completed() == 0);
    elsewhere->submit(programs.find(0, 3, 0), batch);
    CHECK(wait_for(*elsewhere, 1).error == "");
  }
  CHECK(wait_for(*busy, 1).error == "");
  CHECK(wait_for(*beside, 1).error == "");
}

TEST_CASE("cpu cores: without pools, or on CPUs that are not there, there are none") {
  CHECK_THROWS_AS(CpuCores(0, {}), std::runtime_error);
  CHECK_THROWS_AS(CpuCores(1, {.num_threads = 2, .cpus = {0}}), std::runtime_error);
}

TEST_CASE("cpu cores: a device's batch runs when it is its turn") {
  const auto cores = std::make_shared<CpuCores>(1, ThreadPoolOptions{});
  const auto backend = make_cpu_backend(settings_of(tiny_bert_directory()), cores);
  const auto device = backend->make_device(nullptr);
  auto programs = programs_of(*backend, tiny_bert_directory());
  CorePool& pool = *cores->pool(0);
  const auto batch = std::make_shared<const Batch>(batch_of({{1, 2, 3}}));
  {
    const CorePool::Turn turn(pool);
    device->submit(programs.find(0, 3, 0), batch);
    while (pool.num_waiting() == 0 && device->completed() == 0) std::this_thread::yield();
    CHECK(device->completed() == 0);
  }
  CHECK(wait_for(*device, 1).error == "");
}

TEST_CASE("cpu cores: a decoder and an encoder on the same threads give what each gives alone") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  const std::vector<DirectRequest> requests = {{.prompt = {3, 4, 5}, .num_new = 30},
                                               {.prompt = {50}, .num_new = 40}};
  const std::vector<Text> texts = {random_texts(1, 1)[0], {4, 5}};
  struct Answers {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<Vectors> vectors;
  };
  const auto answers_with = [&](const std::shared_ptr<CpuCores>& cores, bool at_once) {
    const auto chat = make_cpu_backend(settings_of(directory.path()), cores);
    const auto bert = make_cpu_backend(settings_of(tiny_bert_directory()), cores);
    CHECK(chat->plan().summary.find(cores ? "2 threads" : "7 threads") != std::string::npos);
    const auto chat_device = chat->make_device(nullptr);
    const auto bert_device = bert->make_device(nullptr);
    auto chat_programs = programs_of(*chat, directory.path());
    auto bert_programs = programs_of(*bert, tiny_bert_directory());
    Answers answers;
    const auto embed = [&] {
      for (int i = 0; i < 20; ++i) answers.vectors.push_back(encode(*bert_device, &bert_programs, texts));
    };
    std::optional<std::thread> other;
    if (at_once) other.emplace(embed);
    answers.tokens = generate(*chat_device, chat_programs, requests, {.in_flight = 2});
    at_once ? other->join() : embed();
    return answers;
  };
  const auto cores = std::make_shared<CpuCores>(1, ThreadPoolOptions{.num_threads = 2});
  const Answers alone = answers_with(nullptr, false);
  const Answers together = answers_with(cores, true);
  CHECK(together.tokens == alone.tokens);
  CHECK(together.vectors == alone.vectors);
}

}  // namespace troupe
